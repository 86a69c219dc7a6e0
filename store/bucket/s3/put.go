package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"allium/protocols/status"
)

// Bounds of a put in parts.
const (
	partSize         = 16 << 20 // smallest part in bytes; an object up to this size is one request
	maxParts         = 10_000   // most parts that S3 accepts
	maxPartsInFlight = 4        // parts of one object that are sent at the same time
)

// Put implements Bucket.
func (c *client) Put(ctx context.Context, key string, r io.ReaderAt, size int64, ifAbsent bool) error {
	var err error
	if size <= partSize {
		err = c.putWhole(ctx, key, r, size, ifAbsent)
	} else {
		err = c.putParts(ctx, key, r, size, ifAbsent)
	}
	if err == nil {
		c.meters.bytes.WithLabelValues("up").Add(float64(size))
	}
	return err
}

// putWhole puts an object with one request. For a server without If-None-Match it looks for
// the object first.
func (c *client) putWhole(ctx context.Context, key string, r io.ReaderAt, size int64, ifAbsent bool) error {
	sum, err := digest(r, 0, size)
	if err != nil {
		return withOperation("put", key, err)
	}
	if ifAbsent && c.unconditional.Load() {
		if err := c.checkAbsent(ctx, key); err != nil {
			return err
		}
		ifAbsent = false
	}
	var opts minio.PutObjectOptions
	if ifAbsent {
		opts.SetMatchETagExcept("*")
	}
	err = c.call(ctx, "put", key, size, func(ctx context.Context) error {
		_, err := c.core.PutObject(ctx, c.bucket, c.prefix+key, io.NewSectionReader(r, 0, size), size, "", sum, opts)
		if ifAbsent && unsupported(err) {
			c.unconditional.Store(true)
		}
		return err
	})
	if err != nil && ifAbsent && c.unconditional.Load() && !errors.Is(err, ErrExists) {
		return c.putWhole(ctx, key, r, size, true) // now it looks for the object first
	}
	if ifAbsent && Away(err) {
		// A server that rejects the put before it has read all bytes closes the
		// connection, which may lose the response.
		if e := c.checkAbsent(ctx, key); errors.Is(e, ErrExists) {
			return e
		}
	}
	return err
}

// checkAbsent returns ErrExists when the bucket has an object under key.
func (c *client) checkAbsent(ctx context.Context, key string) error {
	_, err := c.Stat(ctx, key)
	switch status.Of(err) {
	case status.NotFound:
		return nil
	case status.OK:
		return status.Errorf(status.Precondition, "put %s: %w", key, ErrExists)
	}
	return err
}

// putParts puts an object with several requests. With ifAbsent it looks for the object
// first, as some servers accept no condition on the last request. Two writers may both pass
// that check: they write the same bytes.
func (c *client) putParts(ctx context.Context, key string, r io.ReaderAt, size int64, ifAbsent bool) error {
	if ifAbsent {
		if err := c.checkAbsent(ctx, key); err != nil {
			return err
		}
	}
	var id string
	err := c.call(ctx, "put", key, 0, func(ctx context.Context) (err error) {
		id, err = c.core.NewMultipartUpload(ctx, c.bucket, c.prefix+key, minio.PutObjectOptions{})
		return err
	})
	if err != nil {
		return err
	}
	parts, err := c.sendParts(ctx, key, id, r, size)
	if err == nil {
		err = c.call(ctx, "put", key, 0, func(ctx context.Context) error {
			_, err := c.core.CompleteMultipartUpload(ctx, c.bucket, c.prefix+key, id, parts, minio.PutObjectOptions{})
			return err
		})
		if err != nil {
			err = c.confirmPut(ctx, key, size, err)
		} else if err = c.checkPut(ctx, key, size); err != nil {
			return err
		}
	}
	if err != nil {
		// If this fails, the bucket's lifecycle removes the parts.
		aborting, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		_ = c.call(aborting, "put", key, 0, func(ctx context.Context) error {
			return c.core.AbortMultipartUpload(ctx, c.bucket, c.prefix+key, id)
		})
	}
	return err
}

// confirmPut returns nil when the object is in the bucket although the last request of its
// put failed with err, as only the response may have been lost. Otherwise it returns err.
func (c *client) confirmPut(ctx context.Context, key string, size int64, err error) error {
	if got, e := c.Stat(ctx, key); e == nil && got == size {
		return nil
	}
	return err
}

// checkPut returns upstream unless the bucket now has an object of size bytes under key. Some servers store more
// than they were sent. It deletes an object of another size.
func (c *client) checkPut(ctx context.Context, key string, size int64) error {
	got, err := c.Stat(ctx, key)
	switch {
	case status.Of(err) == status.NotFound:
		return status.Errorf(status.Upstream,
			"put %s: the bucket took %d bytes and has no object now; see the service at %s",
			key, size, c.endpoint)
	case err != nil:
		return err
	case got == size:
		return nil
	}
	deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	_ = c.Delete(deleting, key) // if this fails, the next put replaces it
	return status.Errorf(status.Upstream,
		"put %s: the bucket does not store what it is sent: its object has %d bytes, "+
			"and %d were sent; use another service, or another version of the one at %s", key, got, size, c.endpoint)
}

// sendParts sends the parts of upload id, at most maxPartsInFlight at a time, and returns
// them in order.
func (c *client) sendParts(
	ctx context.Context, key, id string, r io.ReaderAt, size int64,
) ([]minio.CompletePart, error) {
	length := max(partSize, (size/maxParts/partSize+1)*partSize)
	var mu sync.Mutex // lock: leaf
	var parts []minio.CompletePart
	g, sending := errgroup.WithContext(ctx)
	g.SetLimit(maxPartsInFlight)
	for n, off := 1, int64(0); off < size && sending.Err() == nil; n, off = n+1, off+length {
		g.Go(func() error {
			length := min(length, size-off)
			sum, err := digest(r, off, length)
			if err != nil {
				return withOperation("put", key, err)
			}
			return c.call(sending, "put", key, length, func(ctx context.Context) error {
				p, err := c.core.PutObjectPart(ctx, c.bucket, c.prefix+key, id, n,
					io.NewSectionReader(r, off, length), length,
					minio.PutObjectPartOptions{Sha256Hex: sum})
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					parts = append(parts, minio.CompletePart{PartNumber: n, ETag: p.ETag})
				}
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil { // the loop may have ended before the last part
		return nil, err
	}
	slices.SortFunc(parts, func(a, b minio.CompletePart) int { return a.PartNumber - b.PartNumber })
	return parts, nil
}

// digest returns the SHA-256 of n bytes of r from off, in hex. The server checks it. It returns
// io.ErrUnexpectedEOF when r ends earlier.
func digest(r io.ReaderAt, off, n int64) (string, error) {
	h := sha256.New()
	m, err := io.Copy(h, io.NewSectionReader(r, off, n))
	if err != nil {
		return "", err
	}
	if m != n {
		return "", fmt.Errorf("the reader has %d of %d bytes: %w", m, n, io.ErrUnexpectedEOF)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
