"""XRC's SRQ numbers: those that nobody has, and those that belong elsewhere."""

from pyverbs import enums as e
from pyverbs.mr import MR
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr

from bench import ALL_RIGHTS, Case, seen


class Numbers(Case):
    """Requests that name an SRQ which the target may not use."""

    service = 'XRC'

    def name(self, number, opcode=e.IBV_WR_SEND):
        pair = self.pair()
        request = pair.request(1, opcode)
        request.set_qp_type_xrc(number)
        self.check(pair, request)

    def test_srq_that_nobody_has(self):
        self.name(0xabcdef)

    def test_srq_of_another_domain(self):
        srq, _ = self.node.srq(xrcd=self.node.xrcd('second'))
        self.name(srq.get_srq_num())

    def test_srq_that_was_destroyed(self):
        srq, _ = self.node.srq()
        number = srq.get_srq_num()
        srq.close()
        self.name(number)

    def test_basic_srq(self):
        srq = SRQ(self.node.pd, SrqInitAttr(SrqAttr(max_wr=4, max_sge=1)))
        self.name(srq.get_srq_num())

    def test_write_naming_an_srq_that_nobody_has(self):
        self.name(0xabcdef, e.IBV_WR_RDMA_WRITE)

    def test_read_naming_an_srq_of_another_domain(self):
        srq, _ = self.node.srq(xrcd=self.node.xrcd('second'))
        self.name(srq.get_srq_num(), e.IBV_WR_RDMA_READ)

    def test_srq_counts_for_keys_of_its_own_domain(self):
        # The key is of the initiator's protection domain; the SRQ is not, and that is what counts.
        srq = self.node.srq(pd=self.node.other_pd)
        pair = self.pair(srq=srq)
        receives = {'mr': MR(self.node.other_pd, 4096, ALL_RIGHTS)}
        request = pair.request(1, e.IBV_WR_RDMA_WRITE)
        self.check(pair, request, receive_options=receives)


class Survivors(Case):
    """What a broken connection leaves whole."""

    service = 'XRC'

    def test_srq_serves_others_after_a_target_broke(self):
        queue = self.node.srq()
        broken, whole = self.pair(srq=queue), self.pair(srq=queue)
        broken.receive(101, 102)
        request = broken.request(1)
        request.set_qp_type_xrc(0xabcdef)
        broken.post(request)
        self.assertEqual([seen(wc) for wc in broken.sent(1)], [self.row.sender])
        self.assertEqual(broken.state('receiver'), 'ERR')
        whole.post(whole.request(2), whole.request(3))
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in whole.sent(2)], [(2, 'SUCCESS'), (3, 'SUCCESS')])
        self.assertEqual([(wc.wr_id, seen(wc)) for wc in whole.received(2)], [(101, 'SUCCESS'), (102, 'SUCCESS')])
        self.assertEqual(self.events(broken, len(self.row.events)), self.row.events)
