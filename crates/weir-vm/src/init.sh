#!/bin/sh
# The first program of a guest: makes a usable system, runs the job, sends its results, switches the machine off. What it
# says itself goes to the kernel's console.
busybox=/usr/bin/busybox
export PATH=/usr/bin:/usr/lib/busybox HOME=/root TERM=dumb LANG=C.UTF-8

give_up() {
    echo "weir: $*"
    $busybox poweroff -f
}

$busybox mount -t proc proc /proc
$busybox mount -t sysfs sysfs /sys
$busybox mount -t devtmpfs devtmpfs /dev
$busybox --install -s /usr/lib/busybox
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for dir in /dev/shm /run /results; do
    mount -t tmpfs -o mode=1777 tmpfs $dir
done
# Memory as all else; files that were given may lie there.
chmod 1777 /tmp
for link in fd stdin:0 stdout:1 stderr:2; do
    case $link in
    fd) ln -s /proc/self/fd /dev/fd ;;
    *) ln -s "/proc/self/fd/${link#*:}" "/dev/${link%:*}" ;;
    esac
done
mkdir -p /run/lock /run/netns
mount -t bpf bpf /sys/fs/bpf
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t debugfs debugfs /sys/kernel/debug
mount -t tracefs tracefs /sys/kernel/tracing

while read -r module options; do
    # shellcheck disable=SC2086 # options are words
    insmod "/lib/modules/$module.ko" $options || echo "weir: module $module could not be loaded"
done </weir/modules

# The ports that carry output and results come up in their own time.
tries=0
until [ -c /dev/vport0p3 ]; do
    tries=$((tries + 1))
    [ $tries -lt 1000 ] || give_up "the virtio console has no ports"
    usleep 10000
done

ulimit -n 1048576
ulimit -l unlimited
hostname weir
/usr/bin/ip link set lo up

# From here on the job is under way; see UP in guest.rs.
echo "weir: up"
exec 3>/dev/vport0p1 4>/dev/vport0p2
cd /root || give_up "there is no /root"
sh /weir/job </dev/null >&3 2>&4 3>&- 4>&-
echo $? >/weir/status
tar -c -f /dev/vport0p3 -C / weir/status results || give_up "the results could not be sent"
poweroff -f
