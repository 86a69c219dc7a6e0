package bucket

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7/pkg/credentials"

	"allium/protocols/status"
)

// credentialsAge is how long keys that were read from a file are used.
const credentialsAge = 5 * time.Minute

// keys implements credentials.Provider: the profile "default" of a file, or the
// environment when no file is named.
type keys struct {
	file  string
	until time.Time
}

// Retrieve implements credentials.Provider.
func (k *keys) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext implements credentials.Provider.
func (k *keys) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	v := credentials.Value{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"), SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
	}
	where := "the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
	if k.file != "" {
		where = k.file
		p, err := os.ReadFile(k.file)
		if err != nil {
			return credentials.Value{}, status.Errorf(status.Unauthenticated, "store.s3.credentials_file: %w", err)
		}
		v = parseCredentials(p)
	}
	if v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return credentials.Value{}, status.Errorf(status.Unauthenticated, "no keys for the bucket in %s; set them there, or name a file with store.s3.credentials_file", where)
	}
	v.SignerType = credentials.SignatureV4
	k.until = time.Now().Add(credentialsAge)
	return v, nil
}

// IsExpired implements credentials.Provider.
func (k *keys) IsExpired() bool { return time.Now().After(k.until) }

// parseCredentials reads the profile "default" of a shared credentials file;
// what stands before the first profile counts as its.
func parseCredentials(p []byte) (v credentials.Value) {
	mine := true
	for lines := bufio.NewScanner(bytes.NewReader(p)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			mine = strings.TrimSpace(strings.Trim(line, "[]")) == "default"
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		if !mine {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(key)) {
		case "aws_access_key_id":
			v.AccessKeyID = value
		case "aws_secret_access_key":
			v.SecretAccessKey = value
		case "aws_session_token":
			v.SessionToken = value
		}
	}
	return v
}

// check reads the keys once, so that a missing file is told at the start.
func (k *keys) check() error {
	if _, err := k.Retrieve(); err != nil {
		return fmt.Errorf("the bucket: %w", err)
	}
	return nil
}
