package upload

import (
	"encoding/base32"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"allium/protocols/b3"
	"allium/protocols/status"
)

// TestUploadHeaders: what is no number of bytes, or is there twice, is refused.
func TestUploadHeaders(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int64{
		"0": 0, "1": 1, " 7 ": 7, "007": 7, "9223372036854775807": 1<<63 - 1,
		"": -1, "-1": -1, "+1": -1, "1.0": -1, "0x10": -1, "1e3": -1, "9223372036854775808": -1, "1_000": -1, "١": -1,
		"1 2": -1, "1,2": -1,
	} {
		got, err := bytesHeader(http.Header{"Upload-Length": {value}}, uploadLength)
		if (want < 0) != (status.Of(err) == status.BadRequest) || want >= 0 && got != want {
			t.Errorf("%q: %d, %v", value, got, err)
		}
	}
	for _, twice := range [][]string{nil, {"1", "1"}} {
		if _, err := bytesHeader(http.Header{"Upload-Length": twice},
			uploadLength); status.Of(err) != status.BadRequest {
			t.Errorf("%q: %v", twice, err)
		}
	}
	root := b3.Sum([]byte("x"))
	for value, ok := range map[string]bool{
		root.String(): true, " " + root.String(): true, "": false, root.Hex(): true, root.Hex()[1:]: false,
		strings.ToUpper(root.String()): false, b3.Root{}.String(): false,
	} {
		if got, err := expectHeader(http.Header{"Upload-Expect": {value}}); ok != (err == nil && got == root) {
			t.Errorf("%q: %s, %v", value, got, err)
		}
	}
	for id, ok := range map[string]bool{
		strings.Repeat("0a", 16): true, strings.Repeat("0A", 16): false, strings.Repeat("0", 31): false,
		strings.Repeat("0", 33): false, "": false, strings.Repeat("/", 32): false,
	} {
		if isUploadID(id) != ok {
			t.Errorf("%q", id)
		}
	}
}

// FuzzUploadHeaders: numbers come out as they went in, and nothing else does.
func FuzzUploadHeaders(f *testing.F) {
	for _, s := range []string{
		"0", "12345", "-1", "+1", "9223372036854775807", "9223372036854775808", "1e9", "b3:", b3.Sum(nil).String(),
		b3.Sum(nil).Hex(), strings.Repeat("0D", b3.Size), strings.Repeat("b", 51) + "a", b3.Root{}.String(),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		h := http.Header{"Upload-Offset": {value}, "Upload-Expect": {value}}
		if n, err := bytesHeader(h, uploadOffset); err == nil {
			if n < 0 || strings.TrimLeft(strings.Trim(value, " \t\r\n"),
				"0") != strings.TrimLeft(strconv.FormatInt(n, 10),
				"0") {
				t.Errorf("%q is %d", value, n)
			}
		} else if status.Of(err) != status.BadRequest {
			t.Errorf("%q: %v", value, err)
		}
		root, err := expectHeader(h)
		switch o := status.Of(err); {
		case err == nil && !isAddress(strings.Trim(value, " \t\r\n"), root):
			t.Errorf("%q is %s", value, root)
		case o == status.BadDigest && root.IsZero(): // nothing has that address
		case !slices.Contains([]status.Outcome{status.OK, status.BadRequest, status.BadAddress}, o):
			t.Errorf("%q: %v", value, err)
		}
	})
}

// isAddress reports whether text is an address of root: as it is printed, or its digits alone, base 16 or base 32, in
// either case.
func isAddress(text string, root b3.Root) bool {
	digits := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(root[:])
	return text == root.String() || strings.EqualFold(text, root.Hex()) || strings.EqualFold(text, digits)
}
