{{/* Where secrets of data sources are mounted: a directory for each tenant's slug. */}}
{{- define "payrec.worker.sourceSecretsDir" -}}
/etc/payrec/source-secrets
{{- end }}

{{/* Settings of the worker alone. What is left of dropped environments is the operator's, where there is one. */}}
{{- define "payrec.worker.env" -}}
- name: WORKER_GRACE_SECONDS
  value: {{ .Values.worker.graceSeconds | quote }}
{{- if not .Values.operator.enabled }}
{{ include "payrec.adminEnv" . }}
{{- end }}
{{- if .Values.worker.sourceSecrets }}
- name: SOURCE_SECRETS_DIR
  value: {{ include "payrec.worker.sourceSecretsDir" . }}
{{- end }}
{{- include "payrec.blobEnv" . }}
{{- end }}
