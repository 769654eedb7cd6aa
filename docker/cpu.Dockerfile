# Scotopic on the CPU. From the root of the repository:
#   docker build -f docker/cpu.Dockerfile -t scotopic .
#   docker run --rm -v "$PWD:/data" scotopic match left.png right.png -o out
FROM python:3.12-slim AS build
WORKDIR /source
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m build --wheel --outdir /wheels

FROM python:3.12-slim
ARG EXTRAS=app,raw,ros
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[$EXTRAS]" && rm -r /wheels && scotopic --version
# Kernels are compiled for the CPU that runs them, so not here. Mount a volume at /cache to compile them only once.
RUN useradd --create-home scotopic && mkdir -m 1777 /cache
ENV NUMBA_CACHE_DIR=/cache/numba
USER scotopic
WORKDIR /data
ENTRYPOINT ["scotopic"]
CMD ["--help"]
