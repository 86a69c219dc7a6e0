package s3

import (
	"os"

	"allium/internal/privatefile"
	"allium/protocols/status"
)

// maxCredentials bounds the bytes of a credentials file that a check reads.
const maxCredentials = 1 << 20

// CheckCredentials returns what is wrong with the credentials file. It is nil if none is named: then the keys are in
// the environment of the node, which only the node knows.
func (c Config) CheckCredentials() error {
	if c.CredentialsFile == "" {
		return nil
	}
	p, err := os.ReadFile(c.CredentialsFile)
	if err != nil {
		o, _ := status.OfFile(err)
		return status.Errorf(o, "store.s3.credentials_file: %v", err)
	}
	if v := parseCredentials(p); v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return status.Errorf(status.BadRequest, "store.s3.credentials_file: %s has no aws_access_key_id and "+
			"aws_secret_access_key in its profile default", c.CredentialsFile)
	}
	return nil
}

// OpenToOthers returns forbidden, and what to do, if other users of the machine may read the credentials file.
func (c Config) OpenToOthers() error {
	if c.CredentialsFile == "" {
		return nil
	}
	_, err := privatefile.Read(c.CredentialsFile, maxCredentials, privatefile.NoAccess)
	return err
}
