package s3

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

// credentialsAge is the time for which keys are used before they are read again.
const credentialsAge = 5 * time.Minute

// keys implements credentials.Provider. It reads the profile "default" of a file, or the
// environment when no file is configured.
type keys struct {
	file    string
	expires time.Time
}

// Retrieve implements credentials.Provider.
func (k *keys) Retrieve() (credentials.Value, error) { return k.RetrieveWithCredContext(nil) }

// RetrieveWithCredContext implements credentials.Provider.
func (k *keys) RetrieveWithCredContext(*credentials.CredContext) (credentials.Value, error) {
	v := credentials.Value{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"),
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
		return credentials.Value{}, status.Errorf(status.Unauthenticated,
			"no keys for the bucket in %s; set them there, or name a file with store.s3.credentials_file", where)
	}
	v.SignerType = credentials.SignatureV4
	k.expires = time.Now().Add(credentialsAge)
	return v, nil
}

// IsExpired implements credentials.Provider.
func (k *keys) IsExpired() bool { return time.Now().After(k.expires) }

// parseCredentials reads the profile "default" of a shared credentials file. Lines before
// the first profile belong to it.
func parseCredentials(p []byte) (v credentials.Value) {
	inDefault := true
	for lines := bufio.NewScanner(bytes.NewReader(p)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			inDefault = strings.TrimSpace(strings.Trim(line, "[]")) == "default"
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		if !inDefault {
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

// check reads the keys once, so that Open reports a missing file.
func (k *keys) check() error {
	if _, err := k.Retrieve(); err != nil {
		return fmt.Errorf("the bucket: %w", err)
	}
	return nil
}
