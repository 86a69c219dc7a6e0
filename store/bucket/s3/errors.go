package s3

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
	errRange = status.Errorf(status.Upstream,
		"the bucket sent bytes outside of the requested range: it does not support ranges; use another service")
)

// awayError reports that the service could not be reached, or failed to serve the request, in
// all tries.
type awayError struct{ error }

func (e awayError) Unwrap() error { return e.error }

// Away reports whether err means that the bucket cannot be used at present, after all tries.
// Such an error says nothing about the objects in the bucket or about who may use it.
func Away(err error) bool {
	var away awayError
	return errors.As(err, &away)
}

// classify gives the error of one try its outcome. again reports whether another try may
// succeed.
func (c *client) classify(ctx context.Context, err error) (again bool, typed error) {
	if ctx.Err() != nil {
		return false, ctx.Err() // the caller's context ended, not only the try's
	}
	if errors.Is(err, errShort) {
		return false, io.ErrUnexpectedEOF
	}
	if status.HasOutcome(err) {
		return false, err // from reading the keys, or from the reader of a put
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return true, status.Errorf(status.Timeout,
			"the bucket did not answer in time; see the service at %s", c.endpoint)
	}
	var r minio.ErrorResponse
	if !errors.As(err, &r) {
		if status.Of(err) == status.Timeout {
			return true, status.Errorf(status.Timeout, "the bucket did not answer in time: %w", err)
		}
		return true, status.Errorf(status.Upstream,
			"the bucket cannot be reached: %w; check store.s3.endpoint and the service", err)
	}
	return c.classifyResponse(r)
}

// fullCodes are the S3 error codes that mean that the bucket is full, with any HTTP status.
var fullCodes = []string{"QuotaExceeded", "XMinioStorageFull", "XMinioAdminBucketQuotaExceeded", "InsufficientCapacity",
	"StorageFull"}

// classifyResponse gives an error response of the server its outcome. again reports whether
// another try may succeed.
func (c *client) classifyResponse(r minio.ErrorResponse) (again bool, typed error) {
	switch {
	case r.Code == minio.NoSuchBucket:
		return false, status.Errorf(status.Upstream, "there is no bucket %q at %s; create it, or correct store.s3.url",
			c.bucket, c.endpoint)
	case r.Code == minio.NoSuchUpload: // its HTTP status is 404, too
		return false, status.Errorf(status.Upstream, "the bucket forgot an upload that was under way: %s; try again",
			r.Message)
	case r.StatusCode == http.StatusInsufficientStorage, slices.Contains(fullCodes, r.Code):
		return false, status.Errorf(status.NoSpace, "the bucket is full (%s); make room or raise its quota", r.Code)
	case r.StatusCode >= 500:
		return true, c.responseError(r)
	}
	switch r.StatusCode {
	case http.StatusNotFound:
		return false, status.Errorf(status.NotFound, "the bucket has no such object")
	case http.StatusPreconditionFailed:
		return false, status.Errorf(status.Precondition, "%w", ErrExists)
	case http.StatusRequestedRangeNotSatisfiable:
		return false, io.ErrUnexpectedEOF
	case http.StatusUnauthorized, http.StatusForbidden:
		return false, status.Errorf(status.Forbidden, "the bucket refuses the keys (%s); "+
			"check the keys, their policy and the clock (docs/running/bucket.md)", r.Code)
	case http.StatusConflict, http.StatusTooManyRequests, http.StatusRequestTimeout:
		return true, c.responseError(r)
	}
	return false, c.responseError(r)
}

// responseError is the error of a response that has no special meaning.
func (c *client) responseError(r minio.ErrorResponse) error {
	return status.Errorf(status.Upstream, "the bucket answered %d %s: %s; see the service at %s and store.s3",
		r.StatusCode, r.Code, r.Message, c.endpoint)
}

// unsupported reports whether the server does not implement the request. For a put with
// ifAbsent this means that it has no conditional puts.
func unsupported(err error) bool {
	var r minio.ErrorResponse
	return errors.As(err, &r) && (r.StatusCode == http.StatusNotImplemented || r.Code == minio.NotImplemented)
}

// withOperation adds the operation and the key to err. It returns io.ErrUnexpectedEOF as is.
func withOperation(op, key string, err error) error {
	if err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return fmt.Errorf("%s %s: %w", op, key, err)
}
