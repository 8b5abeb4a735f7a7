package main

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
	"os"
	"path/filepath"
	"time"
)

// authority signs the certificates of one cluster.
type authority struct {
	l    layout
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

// identity is who a certificate is for.
type identity struct {
	file, name, group string
	ips               []string
	dns               []string
}

// certificates writes those of the control plane and the nodes, and a kubeconfig for
// each that calls the API server.
func (l layout) certificates() error {
	if err := os.MkdirAll(l.pki(""), 0o700); err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	a := authority{l: l, key: key, next: 1}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "neso-cluster"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().AddDate(1, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	if err := a.write("ca", a.cert, key); err != nil {
		return err
	}
	callers := []identity{
		{file: "admin", name: "admin", group: "system:masters"},
		{file: "controller", name: "system:kube-controller-manager"},
		{file: "scheduler", name: "system:kube-scheduler"},
		{file: "proxy", name: "system:kube-proxy"},
	}
	for n := 1; n <= nodes; n++ {
		callers = append(callers, identity{
			file: nodeName(n), name: "system:node:" + nodeName(n), group: "system:nodes",
			ips: []string{l.address(nodeAddress(n), nodeAddress6(n))}, dns: []string{nodeName(n)},
		})
	}
	for _, c := range callers {
		if err := a.issue(c); err != nil {
			return err
		}
		if err := os.WriteFile(l.pki(c.file+".conf"), []byte(l.kubeconfig(c.file)), 0o600); err != nil {
			return err
		}
	}
	if err := a.issue(identity{file: "front", name: "front-proxy"}); err != nil {
		return err
	}
	if err := a.issue(identity{file: "accounts", name: "service-accounts"}); err != nil {
		return err
	}
	return a.issue(identity{
		file: "apiserver", name: "kube-apiserver", ips: []string{l.address(firstService, firstService6), l.planeAddress(), "127.0.0.1"},
		dns: []string{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"},
	})
}

func (a *authority) issue(i identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	a.next++
	c := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: i.name}, DNSNames: i.dns,
		NotBefore: a.cert.NotBefore, NotAfter: a.cert.NotAfter, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if i.group != "" {
		c.Subject.Organization = []string{i.group}
	}
	for _, ip := range i.ips {
		c.IPAddresses = append(c.IPAddresses, net.ParseIP(ip))
	}
	return a.write(i.file, c, key)
}

func (a *authority) write(file string, c *x509.Certificate, key *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, key.Public(), a.key)
	if err != nil {
		return err
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	if err := writePEM(a.l.pki(file+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writePEM(a.l.pki(file+".key"), "EC PRIVATE KEY", private)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// kubeconfig is how a caller reaches the API server.
func (l layout) kubeconfig(caller string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: neso, cluster: {server: "https://%s", certificate-authority: %q}}]
users: [{name: caller, user: {client-certificate: %q, client-key: %q}}]
contexts: [{name: neso, context: {cluster: neso, user: caller}}]
current-context: neso
`, net.JoinHostPort(l.planeAddress(), "6443"), l.pki("ca.crt"), filepath.Join(l.pki(caller+".crt")), filepath.Join(l.pki(caller+".key")))
}
