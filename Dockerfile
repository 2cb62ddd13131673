# The operator and nothing else: no compiler, no package index, no shell scripts, and no embedded
# cluster (.dockerignore leaves the packages out that only `manta dev` and `manta demo` need).
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN python3 -m venv /opt/manta
COPY requirements.lock ./
RUN /opt/manta/bin/pip install --no-cache-dir --no-compile --require-hashes --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY workqueue ./workqueue
COPY informers ./informers
COPY controller ./controller
COPY examples ./examples
COPY scripts/compile-image ./
RUN /opt/manta/bin/pip install --no-cache-dir --no-compile --no-deps --no-build-isolation . \
    && PYTHONPYCACHEPREFIX=/opt/manta/bytecode /opt/manta/bin/python compile-image

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="manta-operator" \
      org.opencontainers.image.description="A Kubernetes operator for Ray that never acts on stale reads." \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/manta /opt/manta
# The command of KubeRay's charts.
RUN ln -s /opt/manta/bin/manager /manager
ENV PATH=/opt/manta/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPYCACHEPREFIX=/opt/manta/bytecode
USER 65532:65532
EXPOSE 8080 8082
ENTRYPOINT ["manta"]
CMD ["run"]
