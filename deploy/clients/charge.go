// Charges one call over HTTP; exits with 75 if it does not fit now: go run charge.go youtube videos.list
package main

import ("crypto/rand"; "fmt"; "io"; "net/http"; "os"; "strings")

func main() {
	token, err := os.ReadFile(os.Getenv("INGEST_TOKEN_FILE"))
	if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(1) }
	body := fmt.Sprintf("{\"credential\": %q, \"call\": %q}", os.Args[1], os.Args[2])
	request, _ := http.NewRequest("POST", os.Getenv("INGEST_URL")+"/api/v1/charge", strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", rand.Text()) // Without an answer, send the same key again.
	response, err := http.DefaultClient.Do(request)
	if err != nil { fmt.Fprintln(os.Stderr, err); os.Exit(75) }
	io.Copy(os.Stdout, response.Body)
	if response.StatusCode == 429 || response.StatusCode == 503 { os.Exit(75) }
	if response.StatusCode != 200 { os.Exit(1) }
}
