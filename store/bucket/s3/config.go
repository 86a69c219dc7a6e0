package s3

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"allium/internal/limits"
)

// Config says where the bucket is and how the node uses it.
// node/config/keys.txt says what each key means.
type Config struct {
	Params `koanf:"-"` // fixed: never read from a file or the environment

	URL             string `koanf:"url" disk:""`
	Endpoint        string `koanf:"endpoint" disk:""`
	Region          string `koanf:"region" disk:""`
	CredentialsFile string `koanf:"credentials_file" disk:""`
	PathStyle       bool   `koanf:"path_style" disk:""`
	Node            string `koanf:"node" disk:""`
	Shared          bool   `koanf:"shared" disk:""`

	Requests int64 `koanf:"requests" disk:""`

	ShipAfter time.Duration `koanf:"ship_after" disk:""`
	ReadAhead limits.Bytes  `koanf:"read_ahead" disk:""`
}

// DefaultConfig returns the defaults, with AWS as the service. URL is empty: the operator
// sets it.
func DefaultConfig() Config {
	return Config{
		Params: defaultParams(),

		Endpoint:  "https://s3.amazonaws.com",
		Region:    "us-east-1",
		Requests:  32,
		ShipAfter: time.Minute,
		ReadAhead: 64 << 20,
	}
}

// Validate returns an error that names the key of the first field that is out of its bounds.
// An empty URL is an error only when used says that the store uses the bucket.
func (c Config) Validate(used bool) error {
	if used || c.URL != "" {
		if _, _, err := c.place(); err != nil {
			return err
		}
	}
	if _, _, err := c.host(); err != nil {
		return err
	}
	if c.Node != "" && !ValidNode(c.Node) {
		return fmt.Errorf("store.s3.node is %q: must be 1 to 64 of a-z, 0-9, - and _", c.Node)
	}
	for _, n := range []struct {
		key      string
		n        int64
		min, max int64
	}{
		{"requests", c.Requests, 1, 1024},
		{"ship_after (ns)", int64(c.ShipAfter), int64(100 * time.Millisecond), int64(24 * time.Hour)},
		{"read_ahead", int64(c.ReadAhead), 0, 1 << 40},
	} {
		if n.n < n.min || n.n > n.max {
			return fmt.Errorf("store.s3.%s is %d: must be from %d to %d", n.key, n.n, n.min, n.max)
		}
	}
	return nil
}

// place splits URL into the bucket and the prefix. The prefix is empty or ends with a slash.
func (c Config) place() (bucket, prefix string, err error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "s3" || u.Host == "" || u.User != nil || u.Port() != "" || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", "", fmt.Errorf("store.s3.url is %q: must be s3://bucket or s3://bucket/prefix", c.URL)
	}
	prefix = strings.Trim(u.Path, "/")
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "." || part == ".." || part == "" && prefix != "" {
			return "", "", fmt.Errorf("store.s3.url is %q: the prefix has an empty part, . or .. in it", c.URL)
		}
	}
	if prefix != "" {
		prefix += "/"
	}
	return u.Host, prefix, nil
}

// host splits Endpoint into host:port and whether it uses TLS.
func (c Config) host() (host string, secure bool, err error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" ||
		u.Fragment != "" ||
		u.Scheme != "http" && u.Scheme != "https" {
		return "", false, fmt.Errorf("store.s3.endpoint is %q: must be http://host:port or https://host:port",
			c.Endpoint)
	}
	return u.Host, u.Scheme == "https", nil
}

// ValidNode reports whether name is a valid name of a node in a bucket: 1 to 64 characters of
// a-z, 0-9, - and _.
func ValidNode(name string) bool {
	if len(name) == 0 || len(name) > 64 {
		return false
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return false
		}
	}
	return true
}
