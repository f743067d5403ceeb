{{/* Before the first migration of a trial: the roles and the database, on a server that may still be starting. */}}
{{- define "payrec.trial.initContainers" -}}
- name: bootstrap
  {{- include "payrec.container" . | nindent 2 }}
  command: [payrec, bootstrap, --wait=120]
  env:
    {{- range $name, $key := dict "BOOTSTRAP_DATABASE_URL" "bootstrap-database-url" "ADMIN_DATABASE_URL" .Values.database.adminUrlKey "DATABASE_URL" .Values.database.urlKey }}
    {{- include "payrec.secretVariable" (dict "name" $name "secret" (include "payrec.databaseSecret" $) "key" $key) | nindent 4 }}
    {{- end }}
  resources:
    requests: {cpu: 50m, memory: 64Mi}
    limits: {memory: 256Mi}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
{{- end }}

{{/* What a Secret holds under a key, or a new random text of letters and digits. Takes (list data key). */}}
{{- define "payrec.trial.password" -}}
{{- $data := index . 0 }}
{{- $key := index . 1 }}
{{- if hasKey $data $key }}
{{- index $data $key | b64dec }}
{{- else }}
{{- randAlphaNum 48 }}
{{- end }}
{{- end }}
