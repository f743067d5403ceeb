{{/* The pod of the migration. A Job's template cannot be changed, so the Job is named by what this renders. */}}
{{- define "payrec.migrate.template" -}}
{{- $component := dict "root" $ "component" "migrate" "values" .Values.migrate }}
metadata:
  {{- include "payrec.podMetadata" $component | nindent 2 }}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  {{- include "payrec.pod" $component | nindent 2 }}
  {{- if .Values.trial.enabled }}
  initContainers:
    {{- include "payrec.trial.initContainers" . | nindent 4 }}
  {{- end }}
  containers:
    - name: migrate
      {{- include "payrec.container" . | nindent 6 }}
      command: [payrec, migrate]
      env:
        {{- include "payrec.env" . | nindent 8 }}
        {{- include "payrec.adminEnv" . | nindent 8 }}
      {{- with .Values.migrate.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        {{- include "payrec.mounts" . | nindent 8 }}
  volumes:
    {{- include "payrec.volumes" (dict "root" $ "tmp" "64Mi") | nindent 4 }}
{{- end }}
