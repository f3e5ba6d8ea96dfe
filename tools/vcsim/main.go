// The vCenter for tests: govmomi's simulator with a fleet that has the same names and ids after
// every start. Its vmware.logs are in folders to which a test writes, and it records all requests
// that it receives.
//
//	vcsim -home FOLDER -record FILE -listen 127.0.0.1:8989 -hosts 5 -vms 40
//
// It prints its address when it is ready. Differences to the original simulator:
//
//   - /folder serves <home>/<datastore>/<vm>/vmware.log. The simulator's own log lines are
//     written elsewhere.
//   - /folder requires a session and lists folders, as a vCenter does.
//   - Hosts have LUNs, paths and settings (storage.go). Their counters can be queried by wildcard
//     (performance.go).
//   - With /control/…, a test can refuse requests and make datastores unreadable (see control.go).
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/vmware/govmomi/simulator"
	_ "github.com/vmware/govmomi/vapi/simulator" // tags
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address and port")
	home := flag.String("home", "", "the folder of the datastores' folders")
	record := flag.String("record", "", "the file that requests are written to, one JSON a line")
	identity := flag.String("certificate", "", "PEM file of the certificate and its key; made if missing")
	user := flag.String("user", "reader", "who may log in")
	password := flag.String("password", "", "with which password")
	idle := flag.String("session-timeout", "30m", "after so long an idle session expires")
	var size size
	flag.IntVar(&size.clusters, "clusters", 1, "clusters")
	flag.IntVar(&size.hosts, "hosts", 2, "hosts, in all clusters")
	flag.IntVar(&size.datastores, "datastores", 2, "datastores, each on every host")
	flag.IntVar(&size.vms, "vms", 4, "virtual machines, powered on")
	flag.StringVar(&size.prefix, "prefix", "app", "what the VMs' names begin with")
	flag.Parse()

	model := empty()
	must(model.Create())
	defer model.Remove()
	scratch, err := os.MkdirTemp("", "vcsim-")
	must(err)
	defer os.RemoveAll(scratch)
	must(build(model, size, scratch))
	must(place(model, *home))
	equip(model, size.datastores)
	measure(model, size.datastores)
	setSessionTimeout(model, *idle)

	pair, err := certificate(*identity)
	must(err)
	service := model.Service
	service.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	service.Listen = &url.URL{Host: *listen, User: url.UserPassword(*user, *password)}
	service.RegisterEndpoints = true
	server := service.NewServer()
	server.Config.Handler = recorded(*record, controlled(model, *home, service.ServeMux))
	fmt.Println(server.URL.Host)

	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}

// place moves the datastores to folders below home: the simulator's own folders do not persist.
func place(model *simulator.Model, home string) error {
	for _, object := range model.Map().All("Datastore") {
		datastore := object.(*simulator.Datastore)
		folder := filepath.Join(home, datastore.Name)
		datastore.Info.GetDatastoreInfo().Url = folder
		datastore.Summary.Url = folder
		for _, vm := range datastore.Vm {
			machine := model.Map().Get(vm).(*simulator.VirtualMachine)
			if err := os.MkdirAll(filepath.Join(folder, machine.Name), 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
