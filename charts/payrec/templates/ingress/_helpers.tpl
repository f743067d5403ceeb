{{/* The name by which clients ask, where an Ingress or HTTPRoute lists none. */}}
{{- define "payrec.publicHost" -}}
{{- (urlParse (include "payrec.publicUrl" .)).hostname }}
{{- end }}
