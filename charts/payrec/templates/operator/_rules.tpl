{{/* What the operator may do where Tenants are. Each verb has its reason; operator/README.md tells them to people. */}}
{{- define "payrec.operator.rules" -}}
# Tenants: list and watch to hear of them, get to look at one again when one of its Secrets changes, patch for the
# finalizer and for the annotations in which kopf keeps its progress. Neither create nor delete: they are people's.
- apiGroups: [payrec.dev]
  resources: [tenants]
  verbs: [get, list, watch, patch]
# Their status, and nothing but patch: it is never replaced as a whole.
- apiGroups: [payrec.dev]
  resources: [tenants/status]
  verbs: [patch]
# Secrets of API keys: list and watch to notice what is deleted or edited by hand; get to look at one that is not
# labelled as ours before it would be overwritten; create for a new key, update (with the resource version that was
# seen) for a rotated one, delete for a key that is no longer listed. RBAC cannot narrow this to labels: the operator
# itself watches only what is labelled as its own, and writes only what the Tenant controls.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, update, delete]
# Events on a Tenant, when one of its conditions changes.
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
