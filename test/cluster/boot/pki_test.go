// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var testTime = time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)

func issueForTest(t *testing.T, id identity) (*x509.Certificate, *x509.CertPool) {
	t.Helper()
	ca, err := newAuthority(testTime)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.issue(id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(pair.public, pair.private); err != nil {
		t.Fatalf("certificate and key do not belong together: %v", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca.pem) {
		t.Fatal("the authority's PEM has no certificate")
	}
	block, _ := pem.Decode(pair.public)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, roots
}

func TestIssue(t *testing.T) {
	server := identity{name: "server", hosts: []string{"10.96.0.1", "kubernetes.default.svc"}}
	client := identity{name: "system:node:n", groups: []string{"system:nodes"}}
	tests := []struct {
		name, why string
		id        identity
		host      string
		usage     x509.ExtKeyUsage
		at        time.Time
		valid     bool
	}{
		{"server by address", "pods call the service address", server, "10.96.0.1", x509.ExtKeyUsageServerAuth, testTime, true},
		{"server by name", "some clients use the DNS name", server, "kubernetes.default.svc", x509.ExtKeyUsageServerAuth, testTime, true},
		{"other host", "a certificate is for its hosts alone", server, "10.96.0.2", x509.ExtKeyUsageServerAuth, testTime, false},
		{"client", "the API server checks the client usage", client, "", x509.ExtKeyUsageClientAuth, testTime, true},
		{"client as server", "a node must not pose as the API server", client, "", x509.ExtKeyUsageServerAuth, testTime, false},
		{"server as client", "a serving key gives no rights", server, "", x509.ExtKeyUsageClientAuth, testTime, false},
		{"late", "a leaked key dies soon", client, "", x509.ExtKeyUsageClientAuth, testTime.Add(validity + time.Hour), false},
		{"slow clock", "the second of the start already counts", client, "", x509.ExtKeyUsageClientAuth, testTime.Add(-30 * time.Second), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			certificate, roots := issueForTest(t, tt.id)
			_, err := certificate.Verify(x509.VerifyOptions{
				Roots: roots, DNSName: tt.host, CurrentTime: tt.at, KeyUsages: []x509.ExtKeyUsage{tt.usage},
			})
			if (err == nil) != tt.valid {
				t.Errorf("verify = %v; want valid %v: %s", err, tt.valid, tt.why)
			}
		})
	}
}

// The Node authorizer goes by common name and group.
func TestIssueSubject(t *testing.T) {
	certificate, _ := issueForTest(t, clients()["kubelet"])
	if got, want := certificate.Subject.CommonName, "system:node:gpu-node"; got != want {
		t.Errorf("common name = %q, want %q", got, want)
	}
	if diff := cmp.Diff([]string{"system:nodes"}, certificate.Subject.Organization); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestSigningKey(t *testing.T) {
	pair, err := newSigningKey()
	if err != nil {
		t.Fatal(err)
	}
	publicBlock, _ := pem.Decode(pair.public)
	public, err := x509.ParsePKIXPublicKey(publicBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	privateBlock, _ := pem.Decode(pair.private)
	private, err := x509.ParseECPrivateKey(privateBlock.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := public.(*ecdsa.PublicKey); !ok || !private.PublicKey.Equal(key) {
		t.Error("the public key does not belong to the private one")
	}
}
