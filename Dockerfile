# A static binary in a small image. The image has no config and so starts no gateway by itself: an address that a container
# can be reached at needs users, and their tokens are yours. Mount a config that has at least
#
#   [server]
#   listen = "0.0.0.0:8080"
#   [users.me]
#   token = "${PHOTOFINISH_TOKEN}"
#   [providers.…] and [models.…], as in config.toml
#
#   docker build -t photofinish .
#   docker run -p 8080:8080 -v photofinish:/data -v ./my.toml:/etc/photofinish/config.toml:ro \
#     -e PHOTOFINISH_TOKEN -e GROQ_API_KEY photofinish
#
# The history is /data/photofinish.db, a relative path being relative to /data. Stopping waits for running streams as long
# as `drain` says: give `docker stop --time` some seconds more than that. Bind-mounted data must be writable for uid 10001.

FROM rust:1-alpine AS build
RUN apk add --no-cache gcc musl-dev
WORKDIR /build
COPY . .
# The target directory is a cache, which later stages cannot see: the binary is copied out of it.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked && cp target/release/photofinish /usr/local/bin/photofinish

FROM alpine:3
RUN addgroup -S -g 10001 photofinish \
    && adduser -S -D -H -u 10001 -G photofinish photofinish \
    && mkdir /data /etc/photofinish \
    && chown photofinish:photofinish /data
COPY --from=build /usr/local/bin/photofinish /usr/local/bin/photofinish
COPY LICENSE-MIT LICENSE-APACHE /usr/share/licenses/photofinish/
ENV PHOTOFINISH_CONFIG=/etc/photofinish/config.toml
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
# A config that listens elsewhere brings its own check: docker run --health-cmd …
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/healthz"]
ENTRYPOINT ["photofinish"]
CMD ["serve"]
