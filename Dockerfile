# syntax=docker/dockerfile:1
# The command galatea in a small image; docs/src/guide/install.md has the commands.
#
#   docker build --tag galatea .
#   docker build --tag galatea:cpu --build-arg NVRTC= .     # without NVIDIA's compiler: CPU only, 114 MB less

FROM rust:1.95-bookworm AS builder
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package galatea-cli && cp target/release/galatea /usr/local/bin/galatea

# NVRTC, from NVIDIA's wheel: libraries alone, with their licence. An empty version leaves it out.
FROM python:3.13-slim-bookworm AS nvrtc
ARG NVRTC=13.0.88
RUN mkdir /nvrtc && if [ -n "$NVRTC" ]; then \
        pip download --quiet --no-deps --only-binary=:all: --dest /tmp/nvrtc "nvidia-cuda-nvrtc==$NVRTC" && \
        python3 -m zipfile -e /tmp/nvrtc/*.whl /tmp/nvrtc && \
        mv /tmp/nvrtc/nvidia/*/lib/libnvrtc.so.* /tmp/nvrtc/nvidia/*/lib/libnvrtc-builtins.so.* /nvrtc && \
        find /tmp/nvrtc/*.dist-info -name 'License*' -exec mv {} /nvrtc ';' ; fi

# The command needs libc, libm and libgcc_s only, no libstdc++. Certificates are for https and S3.
FROM debian:bookworm-slim AS runtime
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --create-home galatea && \
    install --directory --owner galatea --group galatea --mode 700 /var/cache/galatea && install --directory --owner galatea /data
COPY --from=builder /usr/local/bin/galatea /usr/local/bin/galatea
COPY --from=nvrtc /nvrtc /usr/local/lib/nvrtc
COPY docker/healthcheck /usr/local/bin/galatea-healthcheck
# The NVIDIA container toolkit mounts the driver for these two variables.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
ENV GALATEA_NVRTC_PATH=/usr/local/lib/nvrtc GALATEA_CACHE_DIR=/var/cache/galatea
USER galatea
WORKDIR /data
# Flight SQL, the Postgres protocol, /healthz and /metrics.
EXPOSE 31337 5432 9090
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s --retries=3 CMD ["/usr/local/bin/galatea-healthcheck"]
ENTRYPOINT ["/usr/local/bin/galatea"]
