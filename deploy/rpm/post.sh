# Makes systemd read the units. The timer is enabled by the administrator, once the key is in place; an upgrade keeps that.
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
    if [ "$1" -ge 2 ]; then
        systemctl try-restart ingest.timer || true
    fi
fi
