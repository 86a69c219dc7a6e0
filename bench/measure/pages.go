package measure

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// answerWithin limits the wait for a page of metrics.
const answerWithin = 10 * time.Second

// Counters are the metrics of a node now, by name and labels.
func (p *Process) Counters(ctx context.Context) (map[string]float64, error) {
	client := http.Client{Timeout: answerWithin}
	defer client.CloseIdleConnections()
	code, page, err := Get(ctx, &client, p.Admin+"/metrics")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s/metrics answered %d", p.Admin, code)
	}
	return Metrics(page), err
}

// Get returns the whole answer of a page.
func Get(ctx context.Context, client *http.Client, url string) (code int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// Metrics are the numbers of a page of metrics, by name and labels.
func Metrics(page []byte) map[string]float64 {
	m := map[string]float64{}
	for line := range strings.Lines(string(page)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if f, err := strconv.ParseFloat(value, 64); ok && err == nil {
			m[name] = f
		}
	}
	return m
}

// Answer is one answer as it came.
type Answer struct {
	Code       int
	Head, Body []byte
}

// ReadAnswer reads one answer that has a Content-Length into buf.
func ReadAnswer(c net.Conn, buf []byte) (a Answer, err error) {
	for got := 0; ; {
		n, err := c.Read(buf[got:])
		if err != nil {
			return a, err
		}
		got += n
		head, rest, whole := bytes.Cut(buf[:got], []byte("\r\n\r\n"))
		if !whole {
			continue
		}
		_, value, _ := bytes.Cut(head, []byte("\r\nContent-Length: "))
		digits, _, _ := bytes.Cut(value, []byte("\r\n"))
		length, err := strconv.Atoi(string(digits))
		if err != nil || len(head) < len("HTTP/1.1 200") {
			return a, fmt.Errorf("the answer has no Content-Length: %s", head)
		}
		if len(rest) < length {
			continue
		}
		code, err := strconv.Atoi(string(head[len("HTTP/1.1 "):len("HTTP/1.1 200")]))
		return Answer{code, head, rest[:length]}, err
	}
}
