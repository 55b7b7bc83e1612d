# Before the removal, stops the timers and then the runs: each run stores the page in flight first. An upgrade stops nothing.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
    systemctl disable --now 'ingest.timer' || true
    systemctl stop 'ingest-job@*.timer' 'ingest-region@*.timer' || true
    systemctl stop 'ingest.service' 'ingest-job@*.service' 'ingest-region@*.service' || true
fi
