#!/bin/sh
# Runs a Python client in the environment that install_clients.sh has made. Usage: run_client.sh FOLDER SCRIPT
if [ ! -f "$1/done" ]; then
  echo "skipped: there is no $1/done (see the test emulator.clients.install)"
  exit 77
fi
exec "$1/bin/python" -B "$2"
