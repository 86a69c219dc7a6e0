package bucket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"allium/protocols/status"
)

var (
	errShort = errors.New("the object ends before the range")
	errRange = status.Errorf(status.Upstream, "the bucket sent other bytes than were asked for: it does not know ranges; use another service")
)

// awayError is of a service that could not be reached, or could not do what it
// was asked, in all tries.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// Away reports whether err says that the bucket cannot be reached for now, and
// nothing about what is in it or who may use it.
func Away(err error) bool {
	var away awayError
	return errors.As(err, &away)
}

// failure gives the error of one try its outcome. again says whether another
// try may go better.
func (c *client) failure(ctx context.Context, err error) (again bool, typed error) {
	if ctx.Err() != nil {
		return false, ctx.Err() // the caller's, not the try's
	}
	if errors.Is(err, errShort) {
		return false, io.ErrUnexpectedEOF
	}
	var had interface{ Status() status.Outcome }
	if errors.As(err, &had) {
		return false, err // of the keys, or of the reader of a put
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return true, status.Errorf(status.Timeout, "the bucket did not answer in time; see the service at %s", c.endpoint)
	}
	var r minio.ErrorResponse
	if !errors.As(err, &r) {
		if status.Of(err) == status.Timeout {
			return true, status.Errorf(status.Timeout, "the bucket did not answer in time: %w", err)
		}
		return true, status.Errorf(status.Upstream, "the bucket cannot be reached: %w; check store.s3.endpoint and the service", err)
	}
	return c.answer(r)
}

// full are the codes of services that have no room, whatever the HTTP status.
var full = []string{"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientCapacity", "StorageFull"}

// answer gives an error that the server answered with its outcome.
func (c *client) answer(r minio.ErrorResponse) (again bool, typed error) {
	switch {
	case r.Code == minio.NoSuchBucket:
		return false, status.Errorf(status.Upstream, "there is no bucket %q at %s; create it, or correct store.s3.url", c.bucket, c.endpoint)
	case r.Code == minio.NoSuchUpload: // is a 404 too
		return false, status.Errorf(status.Upstream, "the bucket forgot an upload that was under way: %s; try again", r.Message)
	case r.StatusCode == http.StatusInsufficientStorage, slices.Contains(full, r.Code):
		return false, status.Errorf(status.NoSpace, "the bucket is full (%s); make room or raise its quota", r.Code)
	case r.StatusCode >= 500:
		return true, c.failed(r)
	}
	switch r.StatusCode {
	case http.StatusNotFound:
		return false, status.Errorf(status.NotFound, "the bucket has no such object")
	case http.StatusPreconditionFailed:
		return false, status.Errorf(status.Precondition, "%w", ErrExists)
	case http.StatusRequestedRangeNotSatisfiable:
		return false, io.ErrUnexpectedEOF
	case http.StatusUnauthorized, http.StatusForbidden:
		return false, status.Errorf(status.Forbidden, "the bucket refuses the keys (%s); check them, their policy and the clock (docs/running/bucket.md)", r.Code)
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true, c.failed(r)
	}
	return false, c.failed(r)
}

func (c *client) failed(r minio.ErrorResponse) error {
	return status.Errorf(status.Upstream, "the bucket answered %d %s: %s; see the service at %s and store.s3", r.StatusCode, r.Code, r.Message, c.endpoint)
}

// unsupported reports whether the server does not know conditional puts.
func unsupported(err error) bool {
	var r minio.ErrorResponse
	return errors.As(err, &r) && (r.StatusCode == http.StatusNotImplemented || r.Code == minio.NotImplemented)
}

// named adds what was being done.
func named(op, key string, err error) error {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}
