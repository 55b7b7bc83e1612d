# Removal keeps the configuration, the key, the ledger and the catalog.
if [ "$1" -eq 0 ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
