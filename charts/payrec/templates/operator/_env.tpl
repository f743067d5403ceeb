{{/* Settings of the operator alone. */}}
{{- define "payrec.operator.env" -}}
{{ include "payrec.adminEnv" . }}
- name: OPERATOR_RESYNC_INTERVAL
  value: {{ .Values.operator.resyncInterval | quote }}
{{- end }}
