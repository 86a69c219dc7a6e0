package verified_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"

	"allium/gateway/verified"
	"allium/protocols/b3"
	"allium/protocols/bao"
	"allium/protocols/status"
)

// serveEncoding is a minimal gateway. It serves the verified encoding of data under any address,
// as a gateway that lies would.
func serveEncoding(data []byte) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		size := int64(len(data))
		source := b3.FileSource(bytes.NewReader(data), bytes.NewReader(nil), size)
		encoder, err := bao.NewEncoder(b3.NewReader(b3.Sum(data), size, source), b3.Range{End: -1})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		var encoding bytes.Buffer
		if _, err := encoder.WriteTo(&encoding); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", bao.MediaType)
		w.Header().Set("Content-Length", strconv.Itoa(encoding.Len()))
		_, _ = w.Write(encoding.Bytes())
	}))
}

// Get reads an object through a gateway. Every byte is verified against the address.
func ExampleGateway_Get() {
	server := serveEncoding([]byte("hello\n"))
	defer server.Close()

	g, err := verified.New(server.URL, verified.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	d, err := g.Get(context.Background(), b3.Sum([]byte("hello\n")), b3.Range{End: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Close()
	text, err := io.ReadAll(d)
	fmt.Printf("%q %v\n", text, err)
	// Output: "hello\n" <nil>
}

// A gateway that sends other bytes is found out before any byte is returned.
func ExampleGateway_Get_lie() {
	server := serveEncoding([]byte("other bytes\n"))
	defer server.Close()

	g, err := verified.New(server.URL, verified.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer g.Close()
	d, err := g.Get(context.Background(), b3.Sum([]byte("hello\n")), b3.Range{End: -1})
	if err == nil {
		defer d.Close()
		_, err = io.Copy(io.Discard, d)
	}
	fmt.Println(status.Of(err))
	// Output: corrupt
}
