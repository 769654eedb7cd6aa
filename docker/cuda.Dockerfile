# Scotopic on an NVIDIA GPU. From the root of the repository:
#   docker build -f docker/cuda.Dockerfile -t scotopic:cuda .
#   docker run --rm --gpus all -v "$PWD:/data" scotopic:cuda match left.png right.png -o out --device cuda
FROM python:3.12-slim AS build
WORKDIR /source
RUN pip install --no-cache-dir build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m build --wheel --outdir /wheels

FROM python:3.12-slim
ARG EXTRAS=gpu,app,raw,ros
# Triton compiles a launcher for each kernel with the C compiler of the machine. torch brings CUDA itself.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(ls /wheels/*.whl)[$EXTRAS]" && rm -r /wheels && scotopic --version
# Kernels are compiled for the machine that runs them, so not here. Mount a volume at /cache to compile them only once.
RUN useradd --create-home scotopic && mkdir -m 1777 /cache
ENV NUMBA_CACHE_DIR=/cache/numba TRITON_CACHE_DIR=/cache/triton
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER scotopic
WORKDIR /data
ENTRYPOINT ["scotopic"]
CMD ["--help"]
