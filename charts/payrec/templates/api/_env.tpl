{{/* Settings of the API alone. */}}
{{- define "payrec.api.env" -}}
- name: AUTH_MODE
  value: {{ .Values.authMode }}
{{- if eq .Values.authMode "both" }}
{{ include "payrec.secretVariable" (dict "name" "JWT_SECRET" "secret" (include "payrec.cryptoSecret" .) "key" .Values.crypto.jwtSecretKey) }}
- name: JWT_ISSUER
  value: {{ .Values.jwt.issuer | quote }}
- name: JWT_AUDIENCE
  value: {{ .Values.jwt.audience | quote }}
{{- end }}
- name: TENANT_PROVISIONER
  value: {{ .Values.tenantProvisioner }}
{{- if eq .Values.tenantProvisioner "database" }}
{{ include "payrec.adminEnv" . }}
{{- end }}
{{- with .Values.api.trustedProxies }}
- name: TRUSTED_PROXIES
  value: {{ join "," . | quote }}
{{- end }}
- name: UPLOAD_MAX_BYTES
  value: {{ .Values.upload.maxBytes | int64 | quote }}
- name: CONSOLE_ENABLED
  value: {{ .Values.console.enabled | quote }}
{{- with .Values.rateLimits }}
- name: RATE_LIMIT_PRINCIPAL_PER_SECOND
  value: {{ .principalPerSecond | int64 | quote }}
- name: RATE_LIMIT_TENANT_PER_SECOND
  value: {{ .tenantPerSecond | int64 | quote }}
- name: RATE_LIMIT_UPLOADS_PER_MINUTE
  value: {{ .uploadsPerMinute | int64 | quote }}
- name: RATE_LIMIT_TOKEN_PER_USERNAME_PER_MINUTE
  value: {{ .tokenPerUsernamePerMinute | int64 | quote }}
- name: RATE_LIMIT_TOKEN_PER_ADDRESS_PER_MINUTE
  value: {{ .tokenPerAddressPerMinute | int64 | quote }}
{{- end }}
- name: RATE_LIMIT_REPLICAS
  value: {{ include "payrec.api.processes" . | quote }}
{{- include "payrec.blobEnv" . }}
{{- end }}
