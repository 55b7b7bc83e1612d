"""Charges one call over HTTP; exits with 75 if it does not fit now: python3 charge.py youtube videos.list"""

import json, os, sys, urllib.error, urllib.request, uuid

token = open(os.environ["INGEST_TOKEN_FILE"]).read().strip()
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
body = json.dumps({"credential": sys.argv[1], "call": sys.argv[2]}).encode()
request = urllib.request.Request(os.environ["INGEST_URL"] + "/api/v1/charge", body, headers)
try:
    # Without an answer, send the same request again, under the same key.
    print(json.load(urllib.request.urlopen(request, timeout=10))["detail"])
except urllib.error.HTTPError as error:
    print(error.read().decode(), file=sys.stderr)
    sys.exit(75 if error.code in (429, 503) else 1)
