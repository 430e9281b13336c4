# Builds inside, and makes a small image of the static program. The keys alone are enough:
#
#   docker build -t photofinish .
#   docker run -p 127.0.0.1:8080:8080 -v photofinish:/data -e GROQ_API_KEY photofinish
#
# The first start prints the token that every request needs, once; PHOTOFINISH_TOKEN sets it. A configuration of your own needs a user:
#
#   docker run -p 8080:8080 -v photofinish:/data -v ./my.toml:/etc/photofinish/config.toml:ro \
#     -e PHOTOFINISH_CONFIG=/etc/photofinish/config.toml -e GROQ_API_KEY photofinish
#
# The history is /data/photofinish/photofinish.db; a relative path of a configuration is relative to /data. Stopping waits for running
# streams as long as `drain` says, ten minutes: give `docker stop --time` 45 seconds more than that. Bind-mounted data must be writable for uid 10001.

FROM rust:1-alpine AS build
RUN apk add --no-cache gcc musl-dev
WORKDIR /build
COPY . .
ARG PHOTOFINISH_BUILT_FROM
# The target directory is a cache, which later stages cannot see: the binary is copied out of it.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target \
    cargo build --release --locked && cp target/release/photofinish /usr/local/bin/photofinish && mkdir /empty

FROM scratch
COPY --from=build /usr/local/bin/photofinish /photofinish
COPY LICENSE-MIT LICENSE-APACHE /licenses/
COPY --from=build --chown=10001:10001 /empty /data
ENV PHOTOFINISH_LISTEN=0.0.0.0:8080 HOME=/data XDG_STATE_HOME=/data
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
# A configuration that listens elsewhere is found too, as PHOTOFINISH_CONFIG names it.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/photofinish", "healthcheck"]
ENTRYPOINT ["/photofinish"]
CMD ["serve"]
