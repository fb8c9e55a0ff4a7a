// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The first scenario of `weir bench sim` in ns-3: Cubic flows from one node to another over a link of 100 Mbit/s with a
// CoDel queue discipline and a round trip of 20 ms. Compiled where ns-3 is installed, run, and thrown away. ns-3 is under
// the GNU GPL version 2, and so is the program that this makes with it; it is not part of Weir and is not passed on.
//
//     c++ -std=c++17 -O2 ns3.cc -lns3-core -lns3-network -lns3-internet -lns3-point-to-point -lns3-applications
//         -lns3-traffic-control
//
// Arguments: `shared` for all senders on one node and all receivers on the other, or `own` for hosts of their own behind
// links of 1 Gbit/s without delay; nanoseconds of the real clock to measure for; nanoseconds of virtual time in a line. Each
// line of output is one stretch of virtual time after slow start: full packets received, nanoseconds of the real clock, of
// the processor.
//
// No checksums, traces or statistics, to ns-3's advantage. The bottleneck's own queue is a single packet long, so that the
// discipline is the only queue, as in Weir.

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

namespace {

const uint32_t kFlows = 10;
const uint32_t kSegment = 1448;
const uint16_t kPort = 5001;

uint64_t Nanoseconds(clockid_t clock)
{
    timespec time;
    clock_gettime(clock, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

// Prints what each stretch of virtual time took, until the real time is over.
class Watch
{
  public:
    Watch(std::vector<ns3::Ptr<ns3::PacketSink>> sinks, ns3::Time stretch, uint64_t limit)
        : m_sinks(std::move(sinks)), m_stretch(stretch), m_limit(limit)
    {
    }

    // Slow start is over.
    void Begin()
    {
        m_begin = Nanoseconds(CLOCK_MONOTONIC);
        Note();
        ns3::Simulator::Schedule(m_stretch, &Watch::Look, this);
    }

  private:
    uint64_t Received() const
    {
        uint64_t bytes = 0;
        for (const auto& sink : m_sinks)
        {
            bytes += sink->GetTotalRx();
        }
        return bytes / kSegment;
    }

    void Note()
    {
        m_packets = Received();
        m_real = Nanoseconds(CLOCK_MONOTONIC);
        m_processor = Nanoseconds(CLOCK_THREAD_CPUTIME_ID);
    }

    void Look()
    {
        std::cout << Received() - m_packets << ' ' << Nanoseconds(CLOCK_MONOTONIC) - m_real << ' '
                  << Nanoseconds(CLOCK_THREAD_CPUTIME_ID) - m_processor << std::endl;
        if (Nanoseconds(CLOCK_MONOTONIC) - m_begin >= m_limit)
        {
            ns3::Simulator::Stop();
            return;
        }
        Note();
        ns3::Simulator::Schedule(m_stretch, &Watch::Look, this);
    }

    std::vector<ns3::Ptr<ns3::PacketSink>> m_sinks;
    ns3::Time m_stretch;
    uint64_t m_limit;
    uint64_t m_begin = 0;
    uint64_t m_packets = 0;
    uint64_t m_real = 0;
    uint64_t m_processor = 0;
};

} // namespace

int main(int argc, char** argv)
{
    const std::string hosts = argc > 1 ? argv[1] : "";
    if (argc != 4 || (hosts != "shared" && hosts != "own"))
    {
        std::cerr << "usage: " << argv[0] << " shared|own REAL_NANOSECONDS STRETCH_NANOSECONDS" << std::endl;
        return 2;
    }
    const bool own = hosts == "own";
    const uint64_t limit = std::strtoull(argv[2], nullptr, 10);
    const ns3::Time stretch = ns3::NanoSeconds(std::strtoull(argv[3], nullptr, 10));

    ns3::Config::SetDefault("ns3::TcpL4Protocol::SocketType", ns3::TypeIdValue(ns3::TcpCubic::GetTypeId()));
    ns3::Config::SetDefault("ns3::TcpSocket::SegmentSize", ns3::UintegerValue(kSegment));
    ns3::Config::SetDefault("ns3::TcpSocket::InitialCwnd", ns3::UintegerValue(10));
    ns3::Config::SetDefault("ns3::TcpSocket::DelAckCount", ns3::UintegerValue(2));
    ns3::Config::SetDefault("ns3::TcpSocket::SndBufSize", ns3::UintegerValue(4 << 20));
    ns3::Config::SetDefault("ns3::TcpSocket::RcvBufSize", ns3::UintegerValue(4 << 20));
    ns3::Config::SetDefault("ns3::TcpSocketBase::Sack", ns3::BooleanValue(true));
    ns3::Config::SetDefault("ns3::TcpSocketBase::Timestamp", ns3::BooleanValue(true));

    // The two ends of the bottleneck.
    ns3::NodeContainer ends;
    ends.Create(2);
    ns3::PointToPointHelper link;
    link.SetDeviceAttribute("DataRate", ns3::StringValue("100Mbps"));
    link.SetChannelAttribute("Delay", ns3::StringValue("10ms"));
    link.SetQueue("ns3::DropTailQueue", "MaxSize", ns3::StringValue("1p"));
    const ns3::NetDeviceContainer devices = link.Install(ends);
    ns3::InternetStackHelper stack;
    stack.Install(ends);
    ns3::TrafficControlHelper codel;
    codel.SetRootQueueDisc("ns3::CoDelQueueDisc", "MaxSize", ns3::StringValue("1000p"));
    codel.Install(devices.Get(0));
    ns3::Ipv4AddressHelper addresses("10.0.0.0", "255.255.255.0");
    const ns3::Ipv4Address far = addresses.Assign(devices).GetAddress(1);

    ns3::PointToPointHelper access;
    access.SetDeviceAttribute("DataRate", ns3::StringValue("1Gbps"));
    access.SetChannelAttribute("Delay", ns3::StringValue("0ms"));
    std::vector<ns3::Ptr<ns3::PacketSink>> sinks;
    for (uint32_t flow = 0; flow < kFlows; ++flow)
    {
        ns3::Ptr<ns3::Node> sender = ends.Get(0);
        ns3::Ptr<ns3::Node> receiver = ends.Get(1);
        ns3::Ipv4Address address = far;
        if (own)
        {
            sender = ns3::CreateObject<ns3::Node>();
            receiver = ns3::CreateObject<ns3::Node>();
            stack.Install(sender);
            stack.Install(receiver);
            addresses.NewNetwork();
            addresses.Assign(access.Install(sender, ends.Get(0)));
            addresses.NewNetwork();
            address = addresses.Assign(access.Install(ends.Get(1), receiver)).GetAddress(1);
        }
        const uint16_t port = static_cast<uint16_t>(kPort + flow);
        ns3::PacketSinkHelper receive("ns3::TcpSocketFactory",
                                      ns3::InetSocketAddress(ns3::Ipv4Address::GetAny(), port));
        sinks.push_back(ns3::DynamicCast<ns3::PacketSink>(receive.Install(receiver).Get(0)));
        ns3::BulkSendHelper send("ns3::TcpSocketFactory", ns3::InetSocketAddress(address, port));
        send.SetAttribute("MaxBytes", ns3::UintegerValue(0));
        send.SetAttribute("SendSize", ns3::UintegerValue(kSegment));
        send.Install(sender);
    }
    if (own)
    {
        ns3::Ipv4GlobalRoutingHelper::PopulateRoutingTables();
    }
    Watch watch(sinks, stretch, limit);
    ns3::Simulator::Schedule(ns3::Seconds(5), &Watch::Begin, &watch);
    ns3::Simulator::Run();
    ns3::Simulator::Destroy();
    return 0;
}
