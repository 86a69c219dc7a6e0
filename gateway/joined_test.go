package gateway

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"

	"allium/gateway/server"
)

// TestAnswersOfEverySize: around the size where an answer no longer fits one
// buffer of net/http, each arrives whole, over one connection.
func TestAnswersOfEverySize(t *testing.T) {
	t.Parallel()
	n := start(t, func(c *Config, _ *server.AdminConfig) { c.Rate = 0 })
	sizes := []int{0, 1, 8191, 8192, 8193, 65535, 65536, 65537, 1<<20 + 1}
	for size := 3200; size < 4100; size++ {
		sizes = append(sizes, size)
	}
	bytesOf := func(size int) []byte {
		return bytes.Repeat([]byte{'a' + byte(size%26), '\r', '\n', '\r', '\n'}, size/5+1)[:size]
	}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for _, size := range sizes {
		want := bytesOf(size)
		root := n.objects.put(want)
		for _, asked := range []string{"", fmt.Sprintf("bytes=1-%d", max(1, size-2))} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				n.Addrs().Gateway+"/o/"+root.String(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if asked != "" {
				if size < 3 {
					continue
				}
				req.Header.Set("Range", asked)
				want = want[1 : size-1]
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode >= 300 || !slices.Equal(got, want) {
				t.Errorf("%d bytes, range %q: %s, %d bytes, %v", size, asked, resp.Status, len(got), err)
			}
			resp.Body.Close()
		}
	}
}
