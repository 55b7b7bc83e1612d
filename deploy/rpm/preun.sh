# Before the removal, stops timers and socket, then the runs and the server: each run stores the page in flight first. An upgrade stops nothing.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now 'ingest.timer' 'ingest-serve.socket' || true
    systemctl stop 'ingest-job@*.timer' 'ingest-region@*.timer' || true
    systemctl stop 'ingest.service' 'ingest-serve.service' 'ingest-job@*.service' 'ingest-region@*.service' || true
fi
