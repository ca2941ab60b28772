"""llama.cpp's own server with one model, at one port of this machine.

    llama_server.py MODEL PORT THREADS WINDOW [--slots N] [--key KEY]

Each of the slots answers one request at a time, and has the whole WINDOW in tokens. Without a key, everybody may ask.
"""

import argparse
import threading

import xllamacpp


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    for number in ("port", "threads", "window"):
        parser.add_argument(number, type=int)
    parser.add_argument("--slots", type=int, default=1)
    parser.add_argument("--key")
    options = parser.parse_args()
    params = xllamacpp.CommonParams()
    params.model.path = options.model
    params.hostnames = ["127.0.0.1"]
    params.port = options.port
    # The server divides its window among the slots.
    params.n_ctx = options.window * options.slots
    params.n_parallel = options.slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
    params.use_jinja = True
    # States of earlier prompts, in MiB: the agents of a job take turns.
    params.cache_ram_mib = 2048
    if options.key:
        params.api_keys = [options.key]
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
