{{/* One rule of egress: to these peers, or anywhere, on these ports by TCP. Takes (dict "to" … "ports" …). */}}
{{- define "payrec.network.out" -}}
- ports:
    {{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{/* Names: port 53 of wherever they are resolved, by default pods of any namespace. Takes the root. */}}
{{- define "payrec.network.dns" -}}
- ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
  to:
    {{- with .Values.networkPolicy.dns.to }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    - namespaceSelector: {}
    {{- end }}
{{- end }}

{{/* The database: in a trial its pod. Takes the root. */}}
{{- define "payrec.network.database" -}}
{{- if .Values.trial.enabled }}
- ports:
    - {protocol: TCP, port: 5432}
  to:
    - podSelector:
        matchLabels:
          {{- include "payrec.selectorLabels" (dict "root" $ "component" "postgres") | nindent 10 }}
{{- else }}
{{- include "payrec.network.out" .Values.networkPolicy.database }}
{{- end }}
{{- end }}

{{/* The object store, where one is set; its Secret or the pod's account lets us in. Takes the root. */}}
{{- define "payrec.network.blob" -}}
{{- if regexMatch "^(s3|gs|az):" .Values.blob.url }}
{{- include "payrec.network.out" .Values.networkPolicy.blob }}
{{- end }}
{{- end }}

{{/* Scrapes of the internal port. Takes the root. */}}
{{- define "payrec.network.metrics" -}}
- ports:
    - {protocol: TCP, port: internal}
  from:
    {{- with .Values.networkPolicy.metrics.from }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    - namespaceSelector: {}
    {{- end }}
{{- end }}
