# The decision service. Listens on all of the container's addresses, so every call needs an API key:
#   docker build -t adaprivate .
#   docker run -d --name adaprivate -p 127.0.0.1:8000:8000 -v adaprivate-data:/data -v adaprivate-journal:/journal adaprivate
#   docker exec adaprivate adaprivate keys create me --scope admin
# /data holds rewards; /journal notes what was published, and must not be rolled back with /data: back it up, if at all, apart.
FROM python:3.11-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.11-slim
RUN groupadd --gid 10001 adaprivate \
 && useradd --uid 10001 --gid adaprivate --no-create-home --home-dir /data --shell /usr/sbin/nologin adaprivate \
 && install -d -o adaprivate -g adaprivate -m 0700 /data /journal /var/cache/adaprivate
COPY constraints.txt /wheels/
RUN --mount=type=bind,from=build,source=/wheels,target=/built \
    pip install --no-cache-dir -c /wheels/constraints.txt "$(echo /built/adaprivate-*.whl)[postgresql]"
ENV ADAPRIVATE_DATABASE=sqlite:////data/adaprivate.db \
    ADAPRIVATE_JOURNAL=/journal \
    NUMBA_CACHE_DIR=/var/cache/adaprivate \
    PYTHONUNBUFFERED=1
USER adaprivate
WORKDIR /data
VOLUME ["/data", "/journal"]
EXPOSE 8000
# Without a key it asks whether the process answers at all; with ADAPRIVATE_HEALTH_KEY (scope read) whether it can decide.
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["adaprivate", "health", "--url", "http://127.0.0.1:8000"]
ENTRYPOINT ["adaprivate"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000", "--workers", "2"]
