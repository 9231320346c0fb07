
# irqbalance moves interrupts; one run that ends and one that is killed exclude some. After interrupts.sh.
if [ -x /bin/irqbalance ]; then
    # Its service creates the directory; without it the socket has a name that cannot be found.
    mkdir -p /run/irqbalance
    irqbalance -f -t 1 >/tmp/irqbalance 2>&1 &
    balancer=$!
    listens() { grep -q "irqbalance$balancer" /proc/net/unix; }
    step listens wait_for listens
    reads="io --runs 1 --device sda --set file=/dev/sda --placement irq:3"
    step refused nearfar --quiet measure $reads --set runtime=500ms
    step free meddle banned $balancer
    # It balances every second, so several times during the trial.
    measured left-alone $reads --set runtime=4s --ban-irqbalance &
    measuring=$!
    bans() { meddle banned $balancer | grep -q IRQ; }
    wait_for bans; meddle banned $balancer >/tmp/banned
    wait $measuring
    step banned cat /tmp/banned
    step free-again meddle banned $balancer

    nearfar --quiet measure $reads --set runtime=20s --ban-irqbalance &
    killed=$!
    wait_for all_on 3
    kill -9 $killed; wait $killed
    step banned-left meddle banned $balancer
    step unban nearfar restore --format json
    step free-at-last meddle banned $balancer
    step lives kill -0 $balancer
    kill $balancer
fi
