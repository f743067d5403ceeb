{{/* The chart's name, for labels. */}}
{{- define "payrec.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* What names begin with: a release that is called like the chart does not double it. 40 characters leave room; of a
longer one a hash stays, so that two that begin alike have different names. A Service's name has no dots. */}}
{{- define "payrec.fullname" -}}
{{- $full := printf "%s-%s" .Release.Name (include "payrec.name" .) }}
{{- if .Values.fullnameOverride }}
{{- $full = .Values.fullnameOverride }}
{{- else if contains (include "payrec.name" .) .Release.Name }}
{{- $full = .Release.Name }}
{{- end }}
{{- $name := replace "." "-" $full }}
{{- if gt (len $name) 40 }}
{{- $name = printf "%s-%s" ($name | trunc 31 | trimSuffix "-") (sha256sum $full | trunc 8) }}
{{- end }}
{{- $name }}
{{- end }}

{{/* Labels that never change, for selectors. Takes (dict "root" $ "component" "operator"). */}}
{{- define "payrec.selectorLabels" -}}
app.kubernetes.io/name: {{ include "payrec.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The release's own series: the monitors, and any Prometheus that finds pods by itself, say of each its namespace and
its pod. By the namespace alone, two releases in one would count and alarm for each other. Takes the root. */}}
{{- define "payrec.series" -}}
namespace={{ .Release.Namespace | quote }}, pod=~"{{ include "payrec.fullname" . }}-(api|worker|operator)-[a-z0-9]+(-[a-z0-9]+)?"
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

{{/* How strict the processes are: a trial is development, whatever is set beside it. */}}
{{- define "payrec.deploymentEnvironment" -}}
{{- ternary "development" (default "production" .Values.deploymentEnvironment) .Values.trial.enabled }}
{{- end }}

{{/* Where clients reach the service; in a trial, unless set, the Service itself. */}}
{{- define "payrec.publicUrl" -}}
{{- if and .Values.trial.enabled (not .Values.api.publicUrl) }}
{{- printf "http://%s-api.%s.svc" (include "payrec.fullname" .) .Release.Namespace }}
{{- else }}
{{- required "api.publicUrl is required: where clients reach the service" .Values.api.publicUrl }}
{{- end }}
{{- end }}

{{/* The Secret with the connection URLs; a trial makes its own. */}}
{{- define "payrec.databaseSecret" -}}
{{- if .Values.trial.enabled }}
{{- printf "%s-database" (include "payrec.fullname" .) }}
{{- else }}
{{- required "database.existingSecret is required: the Secret with the connection URLs" .Values.database.existingSecret }}
{{- end }}
{{- end }}

{{/* The Secret with the pepper and the encryption key; a trial makes its own. */}}
{{- define "payrec.cryptoSecret" -}}
{{- if .Values.trial.enabled }}
{{- printf "%s-crypto" (include "payrec.fullname" .) }}
{{- else }}
{{- required "crypto.existingSecret is required: the Secret with the pepper and the encryption key" .Values.crypto.existingSecret }}
{{- end }}
{{- end }}

{{/* Pods of the API or the worker, unless something else counts them. Takes (dict "root" $ "given" …). */}}
{{- define "payrec.replicas" -}}
{{- if kindIs "invalid" .given }}
{{- ternary 1 2 .root.Values.trial.enabled }}
{{- else }}
{{- int .given }}
{{- end }}
{{- end }}

{{/* Among how many processes requests are spread: as many as there ever are. */}}
{{- define "payrec.api.processes" -}}
{{- if .Values.api.autoscaling.enabled }}
{{- .Values.api.autoscaling.maxReplicas }}
{{- else }}
{{- max 1 (include "payrec.replicas" (dict "root" $ "given" .Values.api.replicas) | int) }}
{{- end }}
{{- end }}

{{/* A variable from a Secret. Takes (dict "name" … "secret" … "key" …). */}}
{{- define "payrec.secretVariable" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end }}

{{/* What a process needs to reach the database and to start at all. What is secret comes from Secrets, by key. */}}
{{- define "payrec.ownEnv" -}}
- name: DEPLOYMENT_ENVIRONMENT
  value: {{ include "payrec.deploymentEnvironment" . }}
- name: HOST
  value: "0.0.0.0"
- name: LOG_LEVEL
  value: {{ .Values.logging.level }}
- name: LOG_FORMAT
  value: {{ .Values.logging.format }}
- name: PUBLIC_BASE_URL
  value: {{ include "payrec.publicUrl" . | quote }}
{{ include "payrec.secretVariable" (dict "name" "DATABASE_URL" "secret" (include "payrec.databaseSecret" .) "key" .Values.database.urlKey) }}
{{- with .Values.database.jobsUrlKey }}
{{ include "payrec.secretVariable" (dict "name" "JOBS_DATABASE_URL" "secret" (include "payrec.databaseSecret" $) "key" .) }}
{{- end }}
{{- with .Values.database.pooler }}
- name: DATABASE_POOLER
  value: {{ . }}
{{- end }}
- name: DATABASE_POOL_SIZE
  value: {{ .Values.database.poolSize | quote }}
{{ include "payrec.secretVariable" (dict "name" "API_KEY_PEPPER" "secret" (include "payrec.cryptoSecret" .) "key" .Values.crypto.pepperKey) }}
{{- with .Values.crypto.previousPepperKey }}
{{ include "payrec.secretVariable" (dict "name" "API_KEY_PEPPER_PREVIOUS" "secret" (include "payrec.cryptoSecret" $) "key" .) }}
{{- end }}
{{ include "payrec.secretVariable" (dict "name" "ENCRYPTION_KEY" "secret" (include "payrec.cryptoSecret" .) "key" .Values.crypto.encryptionKeyKey) }}
{{- with .Values.identityProvider }}
{{- if .issuerUrl }}
- name: IDP_ISSUER_URL
  value: {{ .issuerUrl | quote }}
{{- with .tokenUrl }}
- name: IDP_TOKEN_URL
  value: {{ . | quote }}
{{- end }}
{{- with .jwksUrl }}
- name: IDP_JWKS_URL
  value: {{ . | quote }}
{{- end }}
- name: IDP_CLIENT_ID
  value: {{ .clientId | quote }}
{{ include "payrec.secretVariable" (dict "name" "IDP_CLIENT_SECRET" "secret" (required "identityProvider.existingSecret is required with identityProvider.issuerUrl" .existingSecret) "key" .clientSecretKey) }}
{{- else if ne (include "payrec.deploymentEnvironment" $) "development" }}
{{- fail "identityProvider.issuerUrl is required unless deploymentEnvironment is development" }}
{{- end }}
- name: IDP_AUDIENCE
  value: {{ .audience | quote }}
{{- end }}
{{- with .Values.webhooks.allowedCidrs }}
- name: WEBHOOK_ALLOWED_CIDRS
  value: {{ join "," . | quote }}
{{- end }}
{{- end }}

{{/* What every process has. */}}
{{- define "payrec.env" -}}
{{- include "payrec.ownEnv" . }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* A duration such as 1m30s as milliseconds. */}}
{{- define "payrec.milliseconds" -}}
{{- $sum := 0 }}
{{- range $part := regexFindAll "[0-9]+[a-z]+" . -1 }}
{{- $unit := regexFind "[a-z]+" $part }}
{{- $sum = add $sum (mul (trimSuffix $unit $part | atoi) (get (dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000) $unit)) }}
{{- end }}
{{- $sum }}
{{- end }}

{{/* The administrating URL, for those that make or drop schemas. */}}
{{- define "payrec.adminEnv" -}}
{{ include "payrec.secretVariable" (dict "name" "ADMIN_DATABASE_URL" "secret" (include "payrec.databaseSecret" .) "key" .Values.database.adminUrlKey) }}
{{- end }}

{{/* Where uploads and exports are, for those that read and write them. */}}
{{- define "payrec.blobEnv" -}}
{{- with .Values.blob.url }}
- name: BLOB_URL
  value: {{ . | quote }}
{{- end }}
{{- end }}

{{/* Variables of the object store's library: each key of a Secret. */}}
{{- define "payrec.blobEnvFrom" -}}
{{- with .Values.blob.existingSecret -}}
envFrom:
  - secretRef:
      name: {{ . }}
{{- end }}
{{- end }}

{{/* Who a pod of our image runs as: the image's user. */}}
{{- define "payrec.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* What a container may do: no more than the restricted Pod Security Standard lets it, on a file system of which only
the mounted parts can be written. */}}
{{- define "payrec.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What all pods have. Takes (dict "root" $ "component" "api" "values" .Values.api). */}}
{{- define "payrec.pod" -}}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- include "payrec.podSecurity" .root | nindent 2 }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Pods of a component evenly over zones and nodes, as far as that can be. Takes the same. */}}
{{- define "payrec.spread" -}}
topologySpreadConstraints:
{{- if .values.topologySpreadConstraints }}
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
{{- else }}
{{- range $key := list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    # Those of one release of the pods: during an update the ones that go do not count.
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "payrec.selectorLabels" $ | nindent 8 }}
{{- end }}
{{- end }}
{{- end }}

{{/* Labels and annotations of a pod template. Takes the same. The chart's own version is not among them: it would roll
every pod where nothing else has changed. */}}
{{- define "payrec.podMetadata" -}}
labels:
  {{- include "payrec.selectorLabels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  app.kubernetes.io/managed-by: {{ .root.Release.Service }}
  {{- with .values.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  kubectl.kubernetes.io/default-container: {{ .component }}
  {{- with .values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* What every container of our image begins with. */}}
{{- define "payrec.container" -}}
image: {{ include "payrec.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- include "payrec.containerSecurity" . | nindent 2 }}
{{- end }}

{{/* The init container of every process: it waits for the control schema, and migrates nothing. Takes the root. */}}
{{- define "payrec.waitContainer" -}}
- name: wait-for-migration
  {{- include "payrec.container" . | nindent 2 }}
  command: [payrec, wait-for-migration, --seconds, {{ .Values.migrate.waitSeconds | quote }}]
  env:
    {{- include "payrec.env" . | nindent 4 }}
  resources:
    requests: {cpu: 50m, memory: 128Mi}
    limits: {memory: 256Mi}
  volumeMounts:
    {{- include "payrec.mounts" . | nindent 4 }}
{{- end }}

{{/* Where every container may write, and what all have mounted besides. */}}
{{- define "payrec.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The volumes of these. Takes (dict "root" $ "tmp" "64Mi"). */}}
{{- define "payrec.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .tmp }}
{{- with .root.Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
