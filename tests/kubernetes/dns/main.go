// Command dns is CoreDNS with the plugins that a cluster for tests needs, and no others: the whole of it carries the clients of three
// clouds.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

// A query goes through the plugins in this order.
func init() {
	dnsserver.Directives = []string{"bind", "ready", "errors", "kubernetes", "template"}
}

func main() {
	coremain.Run()
}
