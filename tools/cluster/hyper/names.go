package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/net/dns/dnsmessage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	listcorev1 "k8s.io/client-go/listers/core/v1"
	listdiscoveryv1 "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// Names end in zone; a client asks again after ttl seconds, so that a test of who is
// in a headless Service need not wait.
const (
	zone = ".svc.cluster.local."
	ttl  = 1
)

// directory answers for Services, of IPv4 and IPv6: the addresses of the Service, or for
// a headless one those of its ready endpoints.
type directory struct {
	services listcorev1.ServiceLister
	slices   listdiscoveryv1.EndpointSliceLister
}

// names serves the cluster's names over UDP until it is told to end. It stands in for
// CoreDNS, whose dependencies are other versions than those of Kubernetes.
func names() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	flags := flag.NewFlagSet("names", flag.ExitOnError)
	address := flags.String("address", "", "address and port to answer on, UDP")
	kubeconfig := flags.String("kubeconfig", "", "how the API server is reached")
	_ = flags.Parse(os.Args[1:])
	return told(serveNames(ctx, *address, *kubeconfig))
}

func serveNames(ctx context.Context, address, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	d := directory{factory.Core().V1().Services().Lister(), factory.Discovery().V1().EndpointSlices().Lister()}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	conn, err := net.ListenPacket("udp", address)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	question := make([]byte, 512)
	for {
		n, from, err := conn.ReadFrom(question)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "names:", err)
			continue
		}
		if answer, err := d.answer(question[:n]); err == nil {
			_, _ = conn.WriteTo(answer, from)
		}
	}
}

// answer returns the reply to one message. What is no question gets none.
func (d directory) answer(message []byte) ([]byte, error) {
	var p dnsmessage.Parser
	head, err := p.Start(message)
	if err != nil || head.Response {
		return nil, errors.New("no question")
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	found, known := d.find(strings.ToLower(q.Name.String()))
	code := dnsmessage.RCodeSuccess
	if !known {
		code = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: head.ID, Response: true, Authoritative: true,
		RecursionDesired: head.RecursionDesired, RecursionAvailable: true, RCode: code,
	})
	b.EnableCompression()
	if err := errors.Join(b.StartQuestions(), b.Question(q), b.StartAnswers()); err != nil {
		return nil, err
	}
	h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: ttl}
	for _, a := range found {
		err := error(nil)
		switch {
		case q.Type == dnsmessage.TypeA && a.Is4():
			err = b.AResource(h, dnsmessage.AResource{A: a.As4()})
		case q.Type == dnsmessage.TypeAAAA && a.Is6():
			err = b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: a.As16()})
		}
		if err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// most is how many addresses of a family are answered: with the question they fit into
// 512 bytes.
const most = 15

// find looks up service.namespace.svc.cluster.local.
func (d directory) find(name string) ([]netip.Addr, bool) {
	name, ours := strings.CutSuffix(name, zone)
	service, namespace, two := strings.Cut(name, ".")
	if !ours || !two {
		return nil, false
	}
	s, err := d.services.Services(namespace).Get(service)
	if err != nil {
		return nil, false
	}
	if s.Spec.ClusterIP != corev1.ClusterIPNone {
		return addresses(s.Spec.ClusterIPs), true
	}
	slices, err := d.slices.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil {
		return nil, true
	}
	var ready []string
	count := map[discoveryv1.AddressType]int{}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			serves := e.Conditions.Ready == nil || *e.Conditions.Ready || s.Spec.PublishNotReadyAddresses
			if serves && len(e.Addresses) > 0 && count[slice.AddressType] < most {
				count[slice.AddressType]++
				ready = append(ready, e.Addresses[0])
			}
		}
	}
	return addresses(ready), true
}

// addresses returns those of texts that are some.
func addresses(texts []string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			all = append(all, a)
		}
	}
	return all
}
