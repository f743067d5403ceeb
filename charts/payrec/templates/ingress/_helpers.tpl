{{/* The name by which clients ask, where an Ingress or HTTPRoute lists none. Empty where they ask by an address, which
neither takes: then every name leads to the API. */}}
{{- define "payrec.publicHost" -}}
{{- $host := (urlParse (include "payrec.publicUrl" .)).hostname | lower }}
{{- if not (regexMatch "^[0-9.]+$|:" $host) }}
{{- $host }}
{{- end }}
{{- end }}
