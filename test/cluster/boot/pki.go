// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The GPUSlice Authors

package boot

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// validity is longer than any run and short enough that a leaked key is worthless soon.
const validity = 48 * time.Hour

// authority signs every certificate of the cluster.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
	now         time.Time
}

// keyPair is a certificate or public key with its private key, in PEM.
type keyPair struct{ public, private []byte }

// identity is what a certificate says about its holder: a server if it has hosts, else a client.
type identity struct {
	name   string
	groups []string
	// hosts are DNS names and IP addresses.
	hosts []string
}

func newAuthority(now time.Time) (authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return authority{}, fmt.Errorf("generate the authority's key: %w", err)
	}
	template := certificate(identity{name: "gpuslice-cluster"}, now)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = nil
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return authority{}, fmt.Errorf("sign the authority's certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return authority{}, fmt.Errorf("read back the authority's certificate: %w", err)
	}
	return authority{certificate: parsed, key: key, pem: encode("CERTIFICATE", der), now: now}, nil
}

// issue makes a key and a certificate for it.
func (a authority) issue(id identity) (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("generate the key of %s: %w", id.name, err)
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate(id, a.now), a.certificate, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("sign the certificate of %s: %w", id.name, err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("encode the key of %s: %w", id.name, err)
	}
	return keyPair{public: encode("CERTIFICATE", der), private: encode("EC PRIVATE KEY", private)}, nil
}

// newSigningKey makes the pair that signs and verifies service account tokens.
func newSigningKey() (keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, fmt.Errorf("generate the token key: %w", err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return keyPair{}, fmt.Errorf("encode the token key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return keyPair{}, fmt.Errorf("encode the public token key: %w", err)
	}
	return keyPair{public: encode("PUBLIC KEY", public), private: encode("EC PRIVATE KEY", private)}, nil
}

func certificate(id identity, now time.Time) *x509.Certificate {
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes([]byte(rand.Text())),
		Subject:      pkix.Name{CommonName: id.name, Organization: id.groups},
		NotBefore:    now.Add(-time.Minute),
		NotAfter:     now.Add(validity),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(id.hosts) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	for _, host := range id.hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return template
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
