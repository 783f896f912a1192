import java.math.BigDecimal;
import java.math.RoundingMode;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** Invoices in memory: lines are added, then it is totalled, taxed and printed as text. */
public final class Invoice {
    private static final int MAX_LINES = 100;

    /** One line: what, how many, and the price of one. */
    public record Line(String description, long quantity, BigDecimal unitPrice) {}

    private final Tax tax;
    private final List<Line> lines = new ArrayList<>();
    private String customerName = "";
    private long startedNanos;

    public Invoice(Tax tax) {
        this.tax = tax;
    }

    /** Begins an invoice: what was there before is gone. */
    public void startInvoice(String customer) {
        customerName = customer;
        lines.clear();
        startedNanos = System.nanoTime();
    }

    public void addLine(String description, long quantity, BigDecimal unitPrice) {
        if (lines.size() == MAX_LINES) {
            throw new IllegalStateException("An invoice has at most " + MAX_LINES + " lines");
        }
        lines.add(new Line(description, quantity, unitPrice));
    }

    public BigDecimal subtotal() {
        BigDecimal total = BigDecimal.ZERO;
        for (Line line : lines) {
            total = total.add(line.unitPrice().multiply(BigDecimal.valueOf(line.quantity())));
        }
        // Large orders are cheaper.
        if (total.compareTo(new BigDecimal("10000")) >= 0) {
            total = total.multiply(new BigDecimal("0.95"));
        } else if (total.compareTo(new BigDecimal("1000")) >= 0) {
            total = total.multiply(new BigDecimal("0.98"));
        }
        return tax.roundMoney(total);
    }

    public BigDecimal totalWithTax() {
        return totalWithTax("");
    }

    public BigDecimal totalWithTax(String country) {
        String where = country.isEmpty() ? tax.defaultCountry() : country;
        return tax.roundMoney(subtotal().multiply(BigDecimal.ONE.add(tax.rateFor(where))));
    }

    public int lineCount() {
        return lines.size();
    }

    public String invoiceText() {
        StringBuilder text = new StringBuilder("Invoice for " + customerName + "\r\n");
        for (Line line : lines) {
            text.append(line.quantity()).append(" x ").append(line.description()).append("\r\n");
        }
        BigDecimal total = totalWithTax().setScale(2, RoundingMode.HALF_UP);
        return text.append(String.format(Locale.ROOT, "Total: %s", total)).toString();
    }

    public long millisecondsOpen() {
        return (System.nanoTime() - startedNanos) / 1_000_000;
    }

    /** What this module needs of Tax.bas. */
    public interface Tax {
        String defaultCountry();

        BigDecimal rateFor(String country);

        BigDecimal roundMoney(BigDecimal amount);
    }
}
