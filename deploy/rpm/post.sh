# Makes systemd read the units. Timer and socket are enabled by the administrator, once the key is in place, and an upgrade
# keeps that.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ "$1" -ge 2 ]; then
        systemctl try-restart ingest.timer ingest-serve.service || true
    fi
fi
