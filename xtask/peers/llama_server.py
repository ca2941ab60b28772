"""llama.cpp's own server with one model, at one port of this machine, for one request at a time.

    llama_server.py MODEL PORT THREADS WINDOW
"""

import sys
import threading

import xllamacpp


def main(model, port, threads, window):
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = window
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.use_jinja = True
    # States of earlier prompts, in MiB: the agents of a job take turns.
    params.cache_ram_mib = 2048
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1], *(int(argument) for argument in sys.argv[2:]))
