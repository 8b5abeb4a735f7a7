package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
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

// directory answers for Services of IPv4: the address of the Service, or for a
// headless one those of its ready endpoints.
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
	addresses, known := d.find(strings.ToLower(q.Name.String()))
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
	for _, a := range addresses {
		if q.Type != dnsmessage.TypeA {
			break
		}
		h := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: ttl}
		if err := b.AResource(h, dnsmessage.AResource{A: a}); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// find looks up service.namespace.svc.cluster.local.
func (d directory) find(name string) ([][4]byte, bool) {
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
		return ipv4(nil, s.Spec.ClusterIP), true
	}
	slices, err := d.slices.EndpointSlices(namespace).List(labels.SelectorFromSet(labels.Set{discoveryv1.LabelServiceName: service}))
	if err != nil {
		return nil, true
	}
	var all [][4]byte
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			ready := e.Conditions.Ready == nil || *e.Conditions.Ready || s.Spec.PublishNotReadyAddresses
			if ready && len(e.Addresses) > 0 {
				all = ipv4(all, e.Addresses[0])
			}
		}
	}
	return all, true
}

// ipv4 appends an address, if it is of IPv4. No more than 24 fit into 512 bytes with
// the question.
func ipv4(all [][4]byte, text string) [][4]byte {
	if ip := net.ParseIP(text).To4(); ip != nil && len(all) < 24 {
		all = append(all, [4]byte(ip))
	}
	return all
}
