{{/* The chart's name, for labels. */}}
{{- define "payrec.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What names begin with: a release that is called like the chart does not double it. 40 characters leave room. */}}
{{- define "payrec.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "payrec.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "payrec.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* Labels that never change, for selectors. Takes (dict "root" $ "component" "operator"). */}}
{{- define "payrec.selectorLabels" -}}
app.kubernetes.io/name: {{ include "payrec.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* All labels of an object. Takes the same. */}}
{{- define "payrec.labels" -}}
{{ include "payrec.selectorLabels" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* The image; a digest wins over the tag. */}}
{{- define "payrec.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* Settings that every process has. What is secret comes from Secrets, by key. */}}
{{- define "payrec.env" -}}
- name: DEPLOYMENT_ENVIRONMENT
  value: {{ .Values.deploymentEnvironment }}
- name: HOST
  value: "0.0.0.0"
- name: LOG_LEVEL
  value: {{ .Values.logging.level }}
- name: LOG_FORMAT
  value: {{ .Values.logging.format }}
- name: PUBLIC_BASE_URL
  value: {{ required "api.publicUrl is required: where clients reach the service" .Values.api.publicUrl | quote }}
- name: DATABASE_URL
  valueFrom:
    secretKeyRef:
      name: {{ required "database.existingSecret is required: the Secret with the connection URLs" .Values.database.existingSecret }}
      key: {{ .Values.database.urlKey }}
- name: API_KEY_PEPPER
  valueFrom:
    secretKeyRef:
      name: {{ required "crypto.existingSecret is required: the Secret with the pepper and the encryption key" .Values.crypto.existingSecret }}
      key: {{ .Values.crypto.pepperKey }}
{{- with .Values.crypto.previousPepperKey }}
- name: API_KEY_PEPPER_PREVIOUS
  valueFrom:
    secretKeyRef:
      name: {{ $.Values.crypto.existingSecret }}
      key: {{ . }}
{{- end }}
- name: ENCRYPTION_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .Values.crypto.existingSecret }}
      key: {{ .Values.crypto.encryptionKeyKey }}
{{- with .Values.identityProvider.issuerUrl }}
- name: IDP_ISSUER_URL
  value: {{ . | quote }}
- name: IDP_AUDIENCE
  value: {{ $.Values.identityProvider.audience | quote }}
- name: IDP_CLIENT_ID
  value: {{ $.Values.identityProvider.clientId | quote }}
- name: IDP_CLIENT_SECRET
  valueFrom:
    secretKeyRef:
      name: {{ required "identityProvider.existingSecret is required with identityProvider.issuerUrl" $.Values.identityProvider.existingSecret }}
      key: {{ $.Values.identityProvider.clientSecretKey }}
{{- else }}
{{- if ne .Values.deploymentEnvironment "development" }}
{{- fail "identityProvider.issuerUrl is required unless deploymentEnvironment is development" }}
{{- end }}
{{- end }}
{{- end }}
