"""An object store that speaks S3, as far as it is needed: signatures are checked, lists have pages, reads are exact."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, quote, unquote
from xml.sax.saxutils import escape

from aiohttp import web

ACCESS_KEY, SECRET_KEY = "AKIATEST", "secret-of-the-store"


@dataclass
class Bucket:
    """What the store has, and how it misbehaves."""

    name: str = "statements"
    url: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    modified: dict[str, datetime] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    page: int = 1000
    before_read: Callable[[str], None] | None = None
    redirect: str | None = None
    fail_reads: int = 0
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)
    tags: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    is_down: bool = False

    def put(self, name: str, data: bytes) -> None:
        """Store an object."""
        self.objects[name] = data
        self.modified[name] = datetime.now(UTC)

    def tag(self, name: str) -> str:
        """Return the entity tag of an object."""
        data = self.objects[name]
        known = self.tags.get(name)
        if known is None or known[0] is not data:
            known = self.tags[name] = data, f'"{hashlib.md5(data).hexdigest()}"'  # noqa: S324 - what S3 does
        return known[1]

    @property
    def reads(self) -> list[str]:
        """Return which objects were read."""
        return [path for method, path in self.requests if method == "GET" and path]


def _signature(request: web.Request) -> bool:
    given = request.headers.get("Authorization", "")
    if not given.startswith("AWS4-HMAC-SHA256 "):
        return False
    parts = dict(p.strip().split("=", 1) for p in given.removeprefix("AWS4-HMAC-SHA256 ").split(","))
    key_id, day, region, service, _ = parts["Credential"].split("/")
    names = parts["SignedHeaders"].split(";")
    query = sorted(parse_qsl(request.url.raw_query_string, keep_blank_values=True))
    canonical = "\n".join(
        [
            request.method,
            quote(unquote(request.url.raw_path), safe="/-_.~"),
            "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in query),
            *(f"{n}:{' '.join(request.headers[n].split())}" for n in names),
            "",
            ";".join(names),
            request.headers["x-amz-content-sha256"],
        ]
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", request.headers["x-amz-date"], scope, digest])
    key = b"AWS4" + SECRET_KEY.encode()
    for part in (day, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    wanted = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return key_id == ACCESS_KEY and hmac.compare_digest(wanted, parts["Signature"])


def _error(status: int, code: str) -> web.Response:
    return web.Response(status=status, body=f"<Error><Code>{code}</Code></Error>".encode(), content_type="text/xml")


@asynccontextmanager
async def object_server() -> AsyncIterator[Bucket]:  # noqa: C901 - a small protocol in one place
    """Serve one bucket."""
    bucket = Bucket()

    async def serve(request: web.Request) -> web.StreamResponse:  # noqa: C901, PLR0911, PLR0912 - as above
        name, _, key = unquote(request.url.raw_path).lstrip("/").partition("/")
        bucket.requests.append((request.method, key))
        bucket.headers.append(dict(request.headers))
        if bucket.is_down:
            return _error(503, "ServiceUnavailable")
        if bucket.redirect is not None:
            return web.Response(status=307, headers={"Location": bucket.redirect})
        if not _signature(request):
            return _error(403, "SignatureDoesNotMatch")
        if name != bucket.name:
            return _error(404, "NoSuchBucket")
        if request.method == "GET" and not key:
            return _listed(bucket, dict(request.query))
        if request.method == "POST" or "uploadId" in request.query:
            return await _in_parts(bucket, request, key)
        if request.method == "PUT":
            source = request.headers.get("x-amz-copy-source")
            body = await request.read()
            if source is not None:
                copied = unquote(source).lstrip("/").partition("/")[2]
                bucket.put(key, bucket.objects[copied])
                text = f"<CopyObjectResult><ETag>{escape(bucket.tag(key))}</ETag></CopyObjectResult>"
                return web.Response(body=text.encode(), content_type="text/xml")
            bucket.put(key, body)
            return web.Response(headers={"ETag": bucket.tag(key)})
        if request.method == "DELETE":
            bucket.objects.pop(key, None)
            return web.Response(status=204)
        if key not in bucket.objects:
            return _error(404, "NoSuchKey")
        if request.method == "GET" and bucket.before_read is not None:
            bucket.before_read(key)
        headers = {"ETag": bucket.tag(key), "Last-Modified": bucket.modified[key].strftime("%a, %d %b %Y %H:%M:%S GMT")}
        if request.headers.get("If-Match", bucket.tag(key)) != bucket.tag(key):
            return _error(412, "PreconditionFailed")
        if request.method == "GET" and bucket.fail_reads:
            bucket.fail_reads -= 1
            answer = web.StreamResponse(headers={**headers, "Content-Length": str(len(bucket.objects[key]))})
            await answer.prepare(request)
            await answer.write(bucket.objects[key][: len(bucket.objects[key]) // 2])
            assert request.transport is not None
            request.transport.abort()
            return answer
        data, status = bucket.objects[key], 200
        asked = request.http_range
        if asked.start is not None and request.method == "GET":
            last = min(asked.stop or len(data), len(data)) - 1
            headers["Content-Range"] = f"bytes {asked.start}-{last}/{len(data)}"
            data, status = data[asked], 206
        if request.method == "HEAD":
            headers["Content-Length"] = str(len(data))  # the framework leaves it out where it is 0
        return web.Response(status=status, body=data, headers=headers)

    async with served(serve) as url:
        bucket.url = url
        yield bucket


async def _in_parts(bucket: Bucket, request: web.Request, key: str) -> web.Response:
    """Begin, continue or end a file that comes in parts."""
    upload = request.query.get("uploadId")
    if upload is None:
        upload = f"{key}-{len(bucket.parts)}"
        bucket.parts[upload] = {}
        text = f"<InitiateMultipartUploadResult><UploadId>{escape(upload)}</UploadId></InitiateMultipartUploadResult>"
    elif request.method == "PUT":
        number = int(request.query["partNumber"])
        bucket.parts[upload][number] = data = await request.read()
        return web.Response(headers={"ETag": f'"{hashlib.md5(data).hexdigest()}"'})  # noqa: S324 - what S3 does
    elif request.method == "POST":
        bucket.put(key, b"".join(data for _, data in sorted(bucket.parts.pop(upload).items())))
        tag = escape(bucket.tag(key))
        text = f"<CompleteMultipartUploadResult><ETag>{tag}</ETag></CompleteMultipartUploadResult>"
    else:
        del bucket.parts[upload]
        return web.Response(status=204)
    return web.Response(body=text.encode(), content_type="text/xml")


def _listed(bucket: Bucket, query: dict[str, str]) -> web.Response:
    names = sorted(n for n in bucket.objects if n.startswith(query.get("prefix", "")))
    after = query.get("continuation-token", "")
    names = [n for n in names if n > after]
    shown, rest = names[: bucket.page], names[bucket.page :]
    entries = "".join(
        f"<Contents><Key>{escape(n)}</Key><LastModified>{bucket.modified[n]:%Y-%m-%dT%H:%M:%S.000Z}</LastModified>"
        f"<ETag>{escape(bucket.tag(n))}</ETag><Size>{len(bucket.objects[n])}</Size></Contents>"
        for n in shown
    )
    token = f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if rest else ""
    text = (
        f"<ListBucketResult><Name>{bucket.name}</Name><KeyCount>{len(shown)}</KeyCount>"
        f"<IsTruncated>{'true' if rest else 'false'}</IsTruncated>{token}{entries}</ListBucketResult>"
    )
    return web.Response(body=text.encode(), content_type="text/xml")


@asynccontextmanager
async def served(handler: Callable[[web.Request], object]) -> AsyncIterator[str]:
    """Serve every request of a free port with one function."""
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", handler)  # type: ignore[arg-type]
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
