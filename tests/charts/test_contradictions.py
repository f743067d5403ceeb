"""Values that contradict each other are refused with one sentence, before anything is made."""

from __future__ import annotations

import re

import pytest

from support.charts import MINIMAL, refusal, rendered, run_helm

TRIAL = "trial.enabled=true"
KEDA = "worker.keda.enabled=true,worker.keda.prometheusUrl=http://prometheus:9090"
DEVELOPMENT = "deploymentEnvironment=development"

BESIDE_A_TRIAL = [
    "database.existingSecret=mine",
    "database.jobsUrlKey=jobs",
    "database.pooler=transaction",
    "crypto.existingSecret=mine",
    "crypto.previousPepperKey=before",
    "identityProvider.issuerUrl=https://id.example.com",
    "identityProvider.existingSecret=mine",
]

CONTRADICTIONS = [
    (
        "metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true",
        "metrics.serviceMonitor.enabled and metrics.podMonitor.enabled would scrape everything twice: set one of them",
    ),
    (
        "api.replicas=3,api.autoscaling.enabled=true",
        "api.replicas is decided by api.autoscaling: set api.autoscaling.minReplicas instead, or switch it off",
    ),
    (
        "api.replicas=0,api.autoscaling.enabled=true",
        "api.replicas is decided by api.autoscaling: set api.autoscaling.minReplicas instead, or switch it off",
    ),
    (
        "api.autoscaling.enabled=true,api.autoscaling.minReplicas=4,api.autoscaling.maxReplicas=3",
        "api.autoscaling.maxReplicas is less than api.autoscaling.minReplicas",
    ),
    (
        f"{KEDA},worker.replicas=3",
        "worker.replicas is decided by worker.keda: set worker.keda.minReplicas instead, or switch it off",
    ),
    (f"{KEDA},worker.keda.maxReplicas=1", "worker.keda.maxReplicas is less than worker.keda.minReplicas"),
    ("worker.keda.enabled=true", "worker.keda.prometheusUrl is required with worker.keda.enabled"),
    (f"{KEDA},blob.url=file:///blobs,api.replicas=1", "api.autoscaling and worker.keda off"),
    (f"{DEVELOPMENT},ingress.enabled=true", "ingress.enabled leads strangers in, and development lets everybody"),
    (
        f"{DEVELOPMENT},httpRoute.enabled=true,httpRoute.parentRefs[0].name=public",
        "httpRoute.enabled leads strangers in, and development lets everybody",
    ),
    (
        f"{DEVELOPMENT},api.service.type=LoadBalancer",
        "api.service.type LoadBalancer leads strangers in, and development lets everybody",
    ),
    ("httpRoute.enabled=true", "httpRoute.parentRefs is required with httpRoute.enabled"),
    ("blob.url=file:///blobs,worker.replicas=1", "blob.url file: is one node's own, so api.replicas and worker."),
    ("blob.url=file:///blobs,api.replicas=1", "blob.url file: is one node's own, so api.replicas and worker."),
    (
        "blob.url=file:///blobs,worker.replicas=1,api.autoscaling.enabled=true",
        "blob.url file: is one node's own, so api.replicas and worker.",
    ),
    ("blob.existingSecret=store", "blob.existingSecret is of an object store, and blob.url names none"),
    ("authMode=both,crypto.jwtSecretKey=", "crypto.jwtSecretKey is required with authMode both"),
    (
        "tenantProvisioner=kubernetes,operator.enabled=false",
        "tenantProvisioner kubernetes leaves tenants to the operator, so operator.enabled must be true",
    ),
    (
        "tenantProvisioner=kubernetes,operator.watchNamespaces={team-a}",
        "tenantProvisioner kubernetes makes Tenants in the release's namespace, so operator.watchNamespaces must have",
    ),
    ("unknown=1", "unknown"),
    ("api.unknown=1", "unknown"),
    ("trial.postgres.unknown=1", "unknown"),
    ("networkPolicy.database.ports={0}", "ports"),
    ("networkPolicy.database.ports={}", "ports"),
    ("ingress.hosts={not a name}", "hosts"),
    ("trial.postgres.storage=much", "storage"),
    ("api.trustedProxies={10.0.0.1/33}", "trustedProxies"),
    ("api.trustedProxies={300.1.1.1}", "trustedProxies"),
    ("webhooks.allowedCidrs={::1/129}", "allowedCidrs"),
    ("image.tag=registry:1", "tag"),
    ("operator.resyncInterval=0h0s", "resyncInterval"),
    ("api.podDisruptionBudget.maxUnavailable=200%", "maxUnavailable"),
    ("api.podDisruptionBudget.maxUnavailable=0%", "maxUnavailable"),
    ("ingress.hosts={10.1.2.3}", "ingress.hosts and httpRoute.hostnames are names, and 10.1.2.3 is an address"),
    ("extraVolumes[0].name=tmp", "extraVolumes must not have tmp: the chart's pods have a volume of that name"),
    ("extraVolumes[0].name=ca,extraVolumes[1].name=ca", "extraVolumes has ca twice"),
    (
        "extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/etc/ca",
        "extraVolumeMounts has ca, which extraVolumes does not have",
    ),
    (
        "extraVolumeMounts[0].name=tmp,extraVolumeMounts[0].mountPath=/tmp",
        "extraVolumeMounts must not have /tmp: something else is mounted there",
    ),
    *(
        (f"extraEnv[0].name={name}", f"extraEnv must not have {name}: the chart's pods have a variable of that name")
        for name in [
            "DATABASE_URL",
            "LOG_LEVEL",
            "ADMIN_DATABASE_URL",
            "AUTH_MODE",
            "WORKER_GRACE_SECONDS",
            "OPERATOR_RESYNC_INTERVAL",
        ]
    ),
    ("extraEnv[0].name=CA,extraEnv[1].name=CA", "extraEnv has CA twice"),
    *(
        (
            f"metrics.{of}.enabled=true,metrics.{of}.interval=1m,metrics.{of}.scrapeTimeout={timeout}",
            f"metrics.{of}.scrapeTimeout is longer than metrics.{of}.interval",
        )
        for of in ("serviceMonitor", "podMonitor")
        for timeout in ("61s", "1m1ms", "60001ms", "1h")
    ),
    ("metrics.podMonitor.enabled=true,metrics.podMonitor.interval=1s1m", "interval"),
    (
        "api.autoscaling.enabled=true,api.resources.requests.cpu=null",
        "api.autoscaling aims at a percentage of api.resources.requests.cpu, which is not set",
    ),
    *(
        (
            f"{of}.podLabels.app\\.kubernetes\\.io/{label}=x",
            f"{of}.podLabels must not have app.kubernetes.io/{label}: by it the chart's objects find the pods",
        )
        for of, label in [
            ("api", "component"),
            ("worker", "name"),
            ("operator", "instance"),
            ("migrate", "managed-by"),
            ("trial.postgres", "version"),
        ]
    ),
]


@pytest.mark.parametrize(("settings", "sentence"), CONTRADICTIONS, ids=[c[0] for c in CONTRADICTIONS])
def test_a_contradiction_is_one_sentence(settings: str, sentence: str) -> None:
    told = refusal("--set", settings)
    assert sentence in told
    assert "nil pointer" not in told


@pytest.mark.parametrize("setting", BESIDE_A_TRIAL)
def test_a_trial_is_refused_beside_what_production_has(setting: str) -> None:
    told = refusal("--set", TRIAL, "--set", setting, values=None)
    name = setting.partition("=")[0]
    assert f"trial.enabled brings its own database, secrets and identity provider, so {name} must not be set" in told


@pytest.mark.parametrize("name", ["production", "staging", "test"])
def test_a_trial_is_development_and_nothing_else(name: str) -> None:
    told = refusal("--set", TRIAL, "--set", f"deploymentEnvironment={name}", values=None)
    assert f"trial.enabled is for a look at payrec, never for deploymentEnvironment {name}" in told
    assert rendered("--set", f"{TRIAL},{DEVELOPMENT}", values=None)


@pytest.mark.parametrize("entry", ["ingress.enabled=true", "httpRoute.enabled=true", "api.service.type=LoadBalancer"])
def test_nothing_leads_into_a_trial(entry: str) -> None:
    assert "leads strangers in" in refusal("--set", TRIAL, "--set", entry, values=None)


@pytest.mark.parametrize(
    "settings",
    [
        "api.autoscaling.enabled=true",
        KEDA,
        f"{KEDA},api.autoscaling.enabled=true",
        f"{KEDA},blob.url=file:///blobs,api.replicas=1,worker.keda.minReplicas=1,worker.keda.maxReplicas=1",
        "blob.url=file:///blobs,worker.replicas=1,api.replicas=1",
        "blob.url=s3://bucket/prefix,blob.existingSecret=store",
        "tenantProvisioner=kubernetes,operator.watchNamespaces={team-a,payrec-system}",
        "metrics.podMonitor.enabled=true",
        "metrics.podMonitor.enabled=true,metrics.podMonitor.interval=1m,metrics.podMonitor.scrapeTimeout=59s1000ms",
        "extraEnv[0].name=CA,extraEnv[1].name=LOG_LEVELS",
        "api.autoscaling.enabled=true,api.resources.requests.cpu=null,api.resources.limits.cpu=1",
        "api.service.type=LoadBalancer",
        "api.trustedProxies={10.0.0.1,10.0.0.0/8,::1,fd00::/8,::ffff:10.0.0.1/128}",
        "webhooks.allowedCidrs={0.0.0.0/0,10.200.30.255/32,::/0,fd00::1/128}",
        "operator.resyncInterval=0h05m",
        "api.podDisruptionBudget.maxUnavailable=100%",
    ],
)
def test_what_contradicts_nothing_is_taken(settings: str) -> None:
    assert rendered("--set", settings)


def test_the_sentence_is_all_that_helm_says() -> None:
    settings = "metrics.serviceMonitor.enabled=true,metrics.podMonitor.enabled=true"
    done = run_helm("template", "payrec", str(MINIMAL.parents[1]), "--values", str(MINIMAL), "--set", settings)
    [line] = [line for line in done.stderr.splitlines() if line.startswith("Error:")]
    assert re.search(r"contradictions\.yaml.*would scrape everything twice: set one of them$", line)
