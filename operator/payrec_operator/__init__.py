"""The Kubernetes operator of payrec: tenants as resources."""
