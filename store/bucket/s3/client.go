package s3

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"allium/internal/limits"
)

// maxTries is the maximum number of tries of one request (SPEC §2).
const maxTries = 3

// minRate is the rate, in bytes per second, at which a try must move its bytes to end in time.
const minRate = 256 << 10

// client is a bucket behind the S3 protocol.
type client struct {
	core      minio.Core
	transport *http.Transport
	meters    *Meters
	endpoint  string
	bucket    string
	prefix    string        // precedes every key; empty or with a slash at its end
	timeout   time.Duration // of one try, without the time for its bytes

	unconditional atomic.Bool // the server does not support If-None-Match
}

// Open returns the bucket of a valid cfg. It sends nothing: the first request reports
// whether the bucket exists. It returns unauthenticated when cfg leads to no keys.
func Open(cfg Config, meters *Meters) (Bucket, error) {
	name, prefix, err := cfg.place()
	if err != nil {
		return nil, err
	}
	host, secure, err := cfg.host()
	if err != nil {
		return nil, err
	}
	source := &keys{file: cfg.CredentialsFile}
	if err := source.check(); err != nil {
		return nil, err
	}
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       time.Minute,
		MaxIdleConnsPerHost:   int(cfg.Requests),
		ForceAttemptHTTP2:     true,
		DisableCompression:    true, // ranges count stored bytes
	}
	lookup := minio.BucketLookupAuto
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	core, err := minio.NewCore(host, &minio.Options{
		Creds: credentials.New(source), Secure: secure, Transport: transport, Region: cfg.Region, BucketLookup: lookup,
		MaxRetries: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("store.s3: %w", err)
	}
	return &client{
		core: *core, transport: transport, meters: meters, endpoint: cfg.Endpoint, bucket: name, prefix: prefix,
		timeout: cfg.Timeout,
	}, nil
}

// Close implements Bucket.
func (c *client) Close() { c.transport.CloseIdleConnections() }

// call acquires a place at the gate and runs one request with its retries. bytes is how many
// bytes of body the request moves. The error names op and key.
func (c *client) call(ctx context.Context, op, key string, bytes int64, try func(ctx context.Context) error) error {
	release, err := c.meters.gate.Acquire(ctx)
	if err != nil {
		return withOperation(op, key, err)
	}
	defer release()
	start := time.Now()
	err = c.retry(ctx, bytes, try)
	c.meters.done(op, start, err)
	return withOperation(op, key, err)
}

// retry runs try up to maxTries times, with a pause between tries. It returns an awayError
// when the last try fails and another one could succeed.
func (c *client) retry(ctx context.Context, bytes int64, try func(ctx context.Context) error) error {
	for n := 0; ; n++ {
		limited, cancel := context.WithTimeout(ctx, c.timeout+time.Duration(bytes)*time.Second/minRate)
		err := try(limited)
		if err != nil && limited.Err() != nil {
			err = limited.Err() // the library does not always wrap it
		}
		cancel()
		if err == nil {
			return nil
		}
		again, typed := c.classify(ctx, err)
		if !again || unsupported(err) {
			return typed
		}
		if n+1 == maxTries {
			return awayError{typed}
		}
		c.meters.retries.Inc()
		if limits.Sleep(ctx, limits.Backoff(n)) != nil {
			return typed
		}
	}
}

// ReadAt implements Bucket.
func (c *client) ReadAt(ctx context.Context, key string, p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	var opts minio.GetObjectOptions
	if err := opts.SetRange(off, off+int64(len(p))-1); err != nil {
		return err
	}
	err := c.call(ctx, "read", key, int64(len(p)), func(ctx context.Context) error {
		body, _, header, err := c.core.GetObject(ctx, c.bucket, c.prefix+key, opts)
		if err != nil {
			return err
		}
		defer body.Close()
		switch n, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); {
		case err == nil && n < int64(len(p)):
			return errShort
		case err == nil && n > int64(len(p)):
			return errRange
		}
		_, err = io.ReadFull(body, p)
		return err
	})
	if err == nil {
		c.meters.bytes.WithLabelValues("down").Add(float64(len(p)))
	}
	return err
}

// Stat implements Bucket.
func (c *client) Stat(ctx context.Context, key string) (size int64, err error) {
	err = c.call(ctx, "stat", key, 0, func(ctx context.Context) error {
		info, err := c.core.StatObject(ctx, c.bucket, c.prefix+key, minio.StatObjectOptions{})
		size = info.Size
		return err
	})
	return size, err
}

// Delete implements Bucket.
func (c *client) Delete(ctx context.Context, key string) error {
	return c.call(ctx, "delete", key, 0, func(ctx context.Context) error {
		err := c.core.RemoveObject(ctx, c.bucket, c.prefix+key, minio.RemoveObjectOptions{})
		if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
			return nil
		}
		return err
	})
}

// List implements Bucket. Each page is one request, which is retried alone.
func (c *client) List(ctx context.Context, prefix string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		after := ""
		for {
			// Read a whole page before yielding it, so that the caller's work
			// occupies no place at the gate.
			var page []Item
			err := c.call(ctx, "list", prefix, 0, func(ctx context.Context) error {
				page = page[:0]
				opts := minio.ListObjectsOptions{Prefix: c.prefix + prefix, Recursive: true,
					StartAfter: after, MaxKeys: listPage}
				for info := range c.core.ListObjectsIter(ctx, c.bucket, opts) {
					if info.Err != nil {
						return info.Err
					}
					page = append(page, Item{Key: strings.TrimPrefix(info.Key, c.prefix), Size: info.Size})
					if len(page) == listPage {
						break
					}
				}
				return nil
			})
			if err != nil {
				yield(Item{}, err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
			if len(page) < listPage {
				return
			}
			after = c.prefix + page[len(page)-1].Key
		}
	}
}

// listPage is the maximum number of objects that one request lists.
const listPage = 1000
